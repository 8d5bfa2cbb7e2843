"""Operators of media pipes on colours. They compute in float32 and round once."""

from typing import Any, ClassVar

import numpy as np

from openhpu.interface.media import types
from openhpu.interface.media.arrays import Array, array, cast
from openhpu.interface.media.pipe import Arguments, Node

# The weights of red, green and blue in grey, and the rows of Y, Cb, Cr. Source: JPEG File Interchange Format 1.02.
_GREY = np.array([0.299, 0.587, 0.114], np.float32)
_TO_YCBCR = np.array([_GREY, [-0.168736, -0.331264, 0.5], [0.5, -0.418688, -0.081312]], np.float32)
_FROM_YCBCR = np.array([[1, 0, 1.402], [1, -0.344136, -0.714136], [1, 1.772, 0]], np.float32)
_MIDDLE = np.array([0, 128, 128], np.float32)  # of Y, Cb and Cr: what grey has

# By their numbers on a Gaudi: the colours before and after.
MODES = (
    ("RGB", "YCBCR"),
    ("RGB", "BGR"),
    ("YCBCR", "RGB"),
    ("YCBCR", "BGR"),
    ("BGR", "RGB"),
    ("BGR", "YCBCR"),
    ("GRAY", "RGB"),
    ("GRAY", "BGR"),
    ("GRAY", "YCBCR"),
    ("RGB", "GRAY"),
    ("YCBCR", "GRAY"),
    ("BGR", "GRAY"),
)


class ColorSpaceConversion(Node):
    """Images with their colours in another order or space, by `colorSpaceMode`: 0 RGB to YCbCr, 1 RGB to BGR, 2 YCbCr
    to RGB, 3 YCbCr to BGR, 4 BGR to RGB, 5 BGR to YCbCr, 6 grey to RGB, 7 grey to BGR, 8 grey to YCbCr, 9 RGB to grey,
    10 YCbCr to grey, 11 BGR to grey. Grey has one channel. YCbCr is that of JPEG (0 to 255). Raises ValueError for
    another mode and another number of channels."""

    parameters: ClassVar[Arguments] = {"colorSpaceMode": 1, "dtype": types.dtype.UINT8}

    def run(self, batch: Any) -> Any:
        mode = self.arguments["colorSpaceMode"]
        if mode not in range(len(MODES)):
            raise self.error(f"colorSpaceMode is {mode!r}; expected a number from 0 to {len(MODES) - 1}")
        before, after = MODES[mode]
        images, axis = _channels_last(self, batch, 1 if before == "GRAY" else 3)
        made = images[..., ::-1] if {before, after} == {"RGB", "BGR"} else _converted(images, before, after)
        return cast(np.ascontiguousarray(np.moveaxis(made, -1, axis)), self.arguments["dtype"])


def _converted(images: Array, before: str, after: str) -> Array:
    colours: Array = images.astype(np.float32)
    if before == "BGR":
        colours = colours[..., ::-1]
    if before == "YCBCR":
        if after == "GRAY":
            return colours[..., :1]
        colours = (colours - _MIDDLE) @ _FROM_YCBCR.T
    if after == "GRAY":
        return (colours @ _GREY)[..., None]
    if before == "GRAY":
        colours = np.repeat(colours, 3, axis=-1)
    if after == "YCBCR":
        return colours @ _TO_YCBCR.T + _MIDDLE
    return colours[..., ::-1] if after == "BGR" else colours


def _channels_last(node: Node, batch: Any, channels: int) -> tuple[Array, int]:
    """The images with their channels as the last dimension, and which it was."""
    images = array(batch)
    for axis in (3, 1):
        if images.ndim == 4 and images.shape[axis] == channels:
            return np.moveaxis(images, axis, -1), axis
    raise node.error(f"expected a batch of images with {channels} channels; got an array of the shape {images.shape}")


class _Factor(Node):
    """An operator with a number for all images, or one for each as the second input [batch]."""

    factor = ""

    def factors(self, batch: Array, given: Any) -> Array:
        """[batch, 1, 1, 1]."""
        values = array(self.arguments[self.factor] if given is None else given).astype(np.float32).reshape(-1)
        if len(values) not in (1, len(batch)):
            raise self.error(f"got {len(values)} numbers for {len(batch)} images; expected one for each, or one")
        return np.broadcast_to(values, len(batch)).reshape(-1, 1, 1, 1)


class Brightness(_Factor):
    """images * `brightness_scale`. Source: torchvision's adjust_brightness."""

    parameters: ClassVar[Arguments] = {"brightness_scale": 0.0, "dtype": types.dtype.UINT8}
    factor = "brightness_scale"

    def run(self, batch: Any, brightness: Any = None) -> Any:
        images = array(batch)
        return cast(images.astype(np.float32) * self.factors(images, brightness), self.arguments["dtype"])


class _Blend(_Factor):
    """An operator that scales the distance from a grey."""

    def grey(self, weighted: Array) -> Array:
        """Of images whose grey is `weighted` [batch, height, width]: an array that broadcasts with the images."""
        raise NotImplementedError

    def run(self, batch: Any, factor: Any = None) -> Any:
        images, axis = _channels_last(self, batch, 3)
        factors = self.factors(images, factor)
        colours: Array = images.astype(np.float32)
        grey = self.grey(np.floor(colours @ _GREY))
        made = np.clip(grey + (colours - grey) * factors, 0, 255)
        if self.arguments["dtype"] == types.dtype.UINT8:
            made = np.floor(made)
        return cast(np.ascontiguousarray(np.moveaxis(made, -1, axis)), self.arguments["dtype"])


class Contrast(_Blend):
    """Each image's distance from the mean of its grey times `contrast_scale`. Source: torchvision's adjust_contrast."""

    parameters: ClassVar[Arguments] = {"contrast_scale": 0.0, "dtype": types.dtype.UINT8}
    factor = "contrast_scale"

    def grey(self, weighted: Array) -> Array:
        return np.mean(weighted, axis=(1, 2)).reshape(-1, 1, 1, 1)


class Saturation(_Blend):
    """Each pixel's distance from its grey times `saturation_level`. Source: torchvision's adjust_saturation."""

    parameters: ClassVar[Arguments] = {"saturation_level": 0.0, "dtype": types.dtype.UINT8}
    factor = "saturation_level"

    def grey(self, weighted: Array) -> Array:
        return weighted[..., None]


class Hue(_Factor):
    """Colours turned by `degree` in the circle of hues. Source: torchvision's adjust_hue of tensors."""

    parameters: ClassVar[Arguments] = {"degree": 0.0, "dtype": types.dtype.UINT8}
    factor = "degree"

    def run(self, batch: Any, degree: Any = None) -> Any:
        images, axis = _channels_last(self, batch, 3)
        turn = self.factors(images, degree)[..., 0] / 360
        colours = images.astype(np.float32) / 255
        value, low = colours.max(-1), colours.min(-1)
        span = value - low
        safe = np.where(span == 0, 1, span)
        red, green, blue = np.moveaxis(colours, -1, 0)
        first, second, third = (green - blue) / safe, 2 + (blue - red) / safe, 4 + (red - green) / safe
        hue = np.where(value == red, first, np.where(value == green, second, third))
        saturation = np.where(value == 0, 0, span / np.where(value == 0, 1, value))
        made = _colours((hue / 6 + turn) % 1.0, saturation, value)
        return cast(np.ascontiguousarray(np.moveaxis(made * 255, -1, axis)), self.arguments["dtype"])


def _colours(hue: Array, saturation: Array, value: Array) -> Array:
    """Red, green and blue in a new last dimension. All are shares of 1."""
    # One colour falls and another one rises by a sixth of the circle.
    sixth = np.floor(hue * 6)
    rest = hue * 6 - sixth
    least = value * (1 - saturation)
    falling = value * (1 - saturation * rest)
    rising = value * (1 - saturation * (1 - rest))
    sector = sixth.astype(np.int64) % 6
    return np.stack(
        [
            np.choose(sector, [value, falling, least, least, rising, value]),
            np.choose(sector, [rising, value, value, falling, least, least]),
            np.choose(sector, [least, least, rising, value, value, falling]),
        ],
        axis=-1,
    )
