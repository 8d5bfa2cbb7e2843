"""The class that a function of fn.MediaFunc is derived from."""

from abc import ABC, abstractmethod
from typing import Any


class media_function(ABC):
    """`params`: shape (the fastest changing dimension first), dtype, seed, priv_params, batch_size."""

    @abstractmethod
    def __init__(self, params: dict[str, Any]) -> None: ...

    @abstractmethod
    def __call__(self, *inputs: Any) -> Any:
        """An array for a batch."""


__all__ = ["media_function"]
