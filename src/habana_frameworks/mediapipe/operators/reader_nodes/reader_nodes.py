"""The class that a reader of fn.MediaExtReaderOp is derived from."""

from abc import ABC, abstractmethod
from typing import Any


class media_ext_reader_op_impl(ABC):
    """`params`: priv_params, batch_size, seed, num_outputs."""

    @abstractmethod
    def __init__(self, params: dict[str, Any]) -> None: ...

    @abstractmethod
    def __iter__(self) -> Any:
        """An epoch begins."""

    @abstractmethod
    def __next__(self) -> Any:
        """The outputs of a batch. Raises StopIteration at the epoch's end."""


__all__ = ["media_ext_reader_op_impl"]
