"""Operators of media pipes on boxes of objects: [batch, 200, 4] (left, top, right, bottom as shares of the image).

Of each image the first `lengths` boxes and labels count.
"""

import functools
import itertools
import math
from typing import Any, ClassVar

import numpy as np

from openhpu.interface.media.arrays import Array, array, seed
from openhpu.interface.media.pipe import Arguments, Edge, MediaPipe, Node
from openhpu.interface.media.types import MetadataOps

# The anchors of a Single Shot Detector for 300 x 300 pixels. Source: W. Liu et al., SSD, 2016, with the published sizes
# for COCO.
_IMAGE = 300
_CELLS = (38, 19, 10, 5, 3, 1)
_STEPS = (8, 16, 32, 64, 100, 300)
_SIDES = (21, 45, 99, 153, 207, 261, 315)
_RATIOS = ((2,), (2, 3), (2, 3), (2, 3), (2,), (2,))
_MATCHES = 0.5

_LEAST_OVERLAPS = (0.1, 0.3, 0.5, 0.7, 0.9)


def overlaps(first: Array, second: Array) -> Array:
    """Intersection over union of each box of `first` [n, 4] with each of `second` [m, 4]: [n, m]."""
    low = np.maximum(first[:, None, :2], second[None, :, :2])
    high = np.minimum(first[:, None, 2:], second[None, :, 2:])
    common = np.prod(np.clip(high - low, 0, None), axis=-1)
    areas = [np.prod(boxes[:, 2:] - boxes[:, :2], axis=-1) for boxes in (first, second)]
    return common / np.maximum(areas[0][:, None] + areas[1][None, :] - common, 1e-12)


@functools.cache
def anchors() -> Array:
    """The 8,732 anchors [8732, 4]: the middle, width and height as shares of the image, at most 1."""
    found = []
    for cells, step, side, larger, ratios in zip(_CELLS, _STEPS, _SIDES[:-1], _SIDES[1:], _RATIOS, strict=True):
        small, middle = side / _IMAGE, math.sqrt(side * larger) / _IMAGE
        sizes = [(small, small), (middle, middle)]
        for ratio in ratios:
            wide, narrow = small * math.sqrt(ratio), small / math.sqrt(ratio)
            sizes += [(wide, narrow), (narrow, wide)]
        for (width, height), y, x in itertools.product(sizes, range(cells), range(cells)):
            found.append(((x + 0.5) * step / _IMAGE, (y + 0.5) * step / _IMAGE, width, height))
    return np.clip(np.array(found, np.float32), 0, 1)


def corners(boxes: Array) -> Array:
    """Left, top, right, bottom of boxes that are given by middle, width and height."""
    middle, half = boxes[..., :2], boxes[..., 2:] / 2
    return np.concatenate((middle - half, middle + half), axis=-1)


def middles(boxes: Array) -> Array:
    """Middle, width and height of boxes that are given by left, top, right, bottom."""
    low, high = boxes[..., :2], boxes[..., 2:]
    return np.concatenate(((low + high) / 2, high - low), axis=-1)


def _checked(node: Node, boxes: Any, lengths: Any) -> tuple[Array, Array]:
    found, counts = array(boxes).astype(np.float32), array(lengths).reshape(-1).astype(np.int64)
    if found.ndim != 3 or found.shape[2] != 4 or len(counts) != len(found):
        shapes = f"boxes of the shape {found.shape} and {len(counts)} lengths"
        raise node.error(f"got {shapes}; expected [batch, most, 4] and [batch]")
    if counts.size and not 0 <= counts.min() <= counts.max() <= found.shape[1]:
        raise node.error(f"lengths are {counts.tolist()}; expected numbers from 0 to {found.shape[1]}")
    return found, counts


class SSDBBoxFlip(Node):
    """Boxes mirrored from left to right where `is_flip` [batch] is not 0. Output: the boxes."""

    def run(self, is_flip: Any, boxes: Any, lengths: Any) -> Array:
        found, counts = _checked(self, boxes, lengths)
        made = found.copy()
        flips = array(is_flip).reshape(-1) != 0
        if len(flips) != len(found):
            raise self.error(f"is_flip has {len(flips)} numbers, the batch {len(found)} images")
        for n in np.flatnonzero(flips):
            own = found[n, : counts[n]]
            made[n, : counts[n], 0], made[n, : counts[n], 2] = 1 - own[:, 2], 1 - own[:, 0]
        return made


class SSDCropWindowGen(Node):
    """A window of each image at random in which the middles of all its boxes lie, and which overlaps each box by at
    least one of 0.1, 0.3, 0.5, 0.7, 0.9 (intersection over union; drawn for each image). Without such a window in
    `num_iterations` tries it is the whole image.

    Inputs: sizes [batch, 2], boxes, labels [batch, 200], lengths. Outputs: windows, float32 [batch, 4] (left, top,
    width, height as shares of the image), as ImageDecoder takes them; boxes as shares of the window, cut at its edges;
    labels; lengths. Source: W. Liu et al., SSD, 2016, data augmentation.
    """

    parameters: ClassVar[Arguments] = {
        "min_width": 0.3,
        "max_width": 1.0,
        "min_height": 0.3,
        "max_height": 1.0,
        "min_ratio": 0.5,
        "max_ratio": 2.0,
        "num_iterations": 1000,
        "seed": None,
    }
    outputs = 4

    def prepare(self, pipe: MediaPipe) -> None:
        self._rng = np.random.default_rng(seed(self.arguments["seed"]) % 2**63)

    def run(self, sizes: Any, boxes: Any, labels: Any, lengths: Any) -> tuple[Array, ...]:
        found, counts = _checked(self, boxes, lengths)
        windows = np.tile(np.array([0, 0, 1, 1], np.float32), (len(found), 1))
        made = found.copy()
        for n, count in enumerate(counts):
            own = found[n, :count]
            window = self._window(own) if count else None
            if window is not None:
                left, top, right, bottom = window
                windows[n] = left, top, right - left, bottom - top
                within = np.clip(own, [left, top, left, top], [right, bottom, right, bottom])
                made[n, :count] = (within - [left, top, left, top]) / np.tile(windows[n, 2:], 2)
        return windows, made, array(labels), array(lengths)

    def _window(self, boxes: Array) -> Array | None:
        given = self.arguments
        least = self._rng.choice(_LEAST_OVERLAPS)
        middle = middles(boxes)[:, :2]
        for _ in range(given["num_iterations"]):
            width = self._rng.uniform(given["min_width"], given["max_width"])
            height = self._rng.uniform(given["min_height"], given["max_height"])
            if not given["min_ratio"] <= width / height <= given["max_ratio"]:
                continue
            left, top = self._rng.uniform(0, 1 - width), self._rng.uniform(0, 1 - height)
            window = np.array([left, top, left + width, top + height])
            inside = (middle > window[:2]).all() and (middle < window[2:]).all()
            if inside and (overlaps(boxes.astype(np.float64), window[None]) > least).all():
                return window
        return None


class SSDEncode(Node):
    """The box and the label of each of the 8,732 anchors of an SSD: those of the object that overlaps it most, if by
    more than a half, and those of an object for the anchor that overlaps it most. All others keep their own box, with
    label 0.

    Inputs: boxes, labels, lengths. Outputs: boxes, float32 [batch, 8732, 4] (x and y of the middle, width, height), and
    labels [batch, 8732]. Source: W. Liu et al., SSD, 2016, matching strategy.
    """

    outputs = 2

    def run(self, boxes: Any, labels: Any, lengths: Any) -> tuple[Array, Array]:
        found, counts = _checked(self, boxes, lengths)
        kinds = array(labels)
        own = anchors()
        places = corners(own)
        made = np.tile(own, (len(found), 1, 1))
        numbers = np.zeros((len(found), len(own)), np.uint32)
        for n, count in enumerate(counts):
            if not count:
                continue
            common = overlaps(found[n, :count], places)
            best = common.argmax(0)
            matched = common.max(0) > _MATCHES
            nearest = common.argmax(1)
            best[nearest] = np.arange(count)
            matched[nearest] = True
            made[n, matched] = middles(found[n, best[matched]])
            numbers[n, matched] = kinds[n, best[matched]]
        return made, numbers


class SSDMetadata(Node):
    """Several operators on the boxes in one: SSDCropWindowGen, SSDBBoxFlip and SSDEncode, as `serialize` lists them
    (MetadataOps.crop, which can only be first, flip, and encode, which can only be last).

    Inputs: ids, sizes, boxes, labels and lengths, as CocoReader gives them, and `flip` [batch] where `serialize` has
    MetadataOps.flip. Outputs: windows where it has MetadataOps.crop; ids, sizes, boxes, labels, lengths.
    `cropping_iterations` is the number of windows that are tried; `workers` is accepted and means nothing.
    Source: the documented operator of Gaudi's media pipes.
    """

    parameters: ClassVar[Arguments] = {
        "workers": 2,
        "serialize": (MetadataOps.crop, MetadataOps.flip, MetadataOps.encode),
        "cropping_iterations": 1,
        "seed": None,
    }

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        listed = list(self.arguments["serialize"])
        possible = [kind for kind in (MetadataOps.crop, MetadataOps.flip, MetadataOps.encode) if kind in listed]
        if listed != possible or not listed:
            raise self.error(
                f"serialize is {self.arguments['serialize']!r}; expected some of MetadataOps.crop, flip and encode, in "
                "this order"
            )
        self._crop = SSDCropWindowGen(num_iterations=self.arguments["cropping_iterations"], seed=self.arguments["seed"])
        self.outputs = 6 if MetadataOps.crop in listed else 5

    def __call__(self, *sources: Edge) -> Any:
        flips = MetadataOps.flip in self.arguments["serialize"]
        if len(sources) == 5 and flips:
            raise TypeError("fn.SSDMetadata needs a sixth input, flip: serialize has MetadataOps.flip")
        if len(sources) == 6 and not flips:
            raise TypeError("fn.SSDMetadata got a sixth input, flip, but serialize has no MetadataOps.flip")
        return super().__call__(*sources)

    def prepare(self, pipe: MediaPipe) -> None:
        self._crop.prepare(pipe)

    def run(self, ids: Any, sizes: Any, boxes: Any, labels: Any, lengths: Any, flip: Any = None) -> tuple[Any, ...]:
        kinds = self.arguments["serialize"]
        windows: tuple[Array, ...] = ()
        if MetadataOps.crop in kinds:
            found, boxes, labels, lengths = self._crop.run(sizes, boxes, labels, lengths)
            windows = (found,)
        if MetadataOps.flip in kinds:
            boxes = SSDBBoxFlip().run(flip, boxes, lengths)
        if MetadataOps.encode in kinds:
            boxes, labels = SSDEncode().run(boxes, labels, lengths)
        return *windows, ids, sizes, boxes, labels, lengths
