"""The class that a reader of fn.MediaExtReaderOp is derived from."""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np


class media_ext_reader_op_tensor_info(NamedTuple):
    """What a reader says about an output: `dtype`, `shape` (the fastest changing dimension first), `layout`."""

    dtype: str
    shape: np.ndarray[Any, Any]
    layout: str = ""


class media_ext_reader_op_impl(ABC):
    """`params`: priv_params, batch_size, seed, num_outputs. A constructor with a second argument gets the pipe's
    `batch_size` and `queue_depth` by it. Methods that describe the outputs (`gen_output_info`, `get_largest_file`,
    `get_media_output_type`) may be there; nothing here needs them. `__len__`: batches of an epoch."""

    @abstractmethod
    def __init__(self, params: dict[str, Any]) -> None: ...

    @abstractmethod
    def __iter__(self) -> Any:
        """An epoch begins."""

    @abstractmethod
    def __next__(self) -> Any:
        """The outputs of a batch. Raises StopIteration at the epoch's end."""


__all__ = ["media_ext_reader_op_impl", "media_ext_reader_op_tensor_info"]
