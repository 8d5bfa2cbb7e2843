"""Reading an image file, for both data loaders."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from openhpu.interface.media.types import ftype

if TYPE_CHECKING:
    from PIL.Image import Image

Box = tuple[int, int, int, int]  # left, top, width, height in pixels
Range = tuple[float, float]
Result = TypeVar("Result")

# Pillow's numbers for the filters of `types.ftype` that are not bilinear.
FILTERS = {ftype.NEAREST: 0, ftype.LANCZOS: 1, ftype.BICUBIC: 3, ftype.SPLINE: 3, ftype.BOX: 4}
BILINEAR = 2

_TRIES = 10


def opened(file: str | Path | bytes | np.ndarray[Any, Any]) -> Image:
    """An image as RGB, from its file's path or from what is in it. Raises what Pillow does, with the path as a note,
    and ModuleNotFoundError."""
    return _of(file, lambda image: image.convert("RGB"))


def size_of(file: str | Path | bytes | np.ndarray[Any, Any]) -> tuple[int, int]:
    """Width and height in pixels, without decoding the image. Raises as `opened`."""
    return _of(file, lambda image: image.size)


def _of(file: str | Path | bytes | np.ndarray[Any, Any], read: Callable[[Image], Result]) -> Result:
    try:
        import PIL.Image
    except ModuleNotFoundError as error:
        error.add_note("Pillow decodes images: pip install pillow")
        raise
    if not isinstance(file, (str, Path)):
        with PIL.Image.open(io.BytesIO(bytes(file))) as image:
            return read(image)
    try:
        with open(file, "rb") as source, PIL.Image.open(source) as image:
            return read(image)
    except Exception as error:
        error.add_note(f"in the image file {file}")
        raise


def random_area(rng: np.random.Generator, width: int, height: int, scale: Range, ratio: Range) -> Box:
    """A crop of a share of the image's area in `scale` with a ratio of width to height in `ratio`; after ten tries the
    largest one in the middle whose ratio is allowed. Source: torchvision.transforms.RandomResizedCrop."""
    logarithms = math.log(ratio[0]), math.log(ratio[1])
    for _ in range(_TRIES):
        area = width * height * rng.uniform(*scale)
        aspect = math.exp(rng.uniform(*logarithms))
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            return int(rng.integers(0, width - w + 1)), int(rng.integers(0, height - h + 1)), w, h
    aspect = min(max(width / height, ratio[0]), ratio[1])
    w, h = min(width, round(height * aspect)), min(height, round(width / aspect))
    return (width - w) // 2, (height - h) // 2, w, h
