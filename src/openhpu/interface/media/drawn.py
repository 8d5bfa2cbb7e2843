"""Operators of media pipes that draw numbers, and constants."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from openhpu.interface.media import images, types
from openhpu.interface.media.arrays import Array, array, cast, seed
from openhpu.interface.media.pipe import Arguments, MediaPipe, Node


class Constant(Node):
    """An array [1] with the number `constant`."""

    parameters: ClassVar[Arguments] = {"constant": 0.0, "dtype": types.dtype.UINT8}

    def run(self) -> Any:
        return cast(np.array([self.arguments["constant"]], np.float64), self.arguments["dtype"])


class _Drawn(Node):
    """Numbers of a generator of its own, which begins with `seed`."""

    def prepare(self, pipe: MediaPipe) -> None:
        self._rng = np.random.default_rng(seed(self.arguments["seed"]) % 2**63)
        self._batch = pipe.get_batch_size()

    def rng(self, given: Any) -> np.random.Generator:
        """The node's generator, or one that begins with the seed that an input gives."""
        return self._rng if given is None else np.random.default_rng(int(array(given).reshape(-1)[0]))


class CoinFlip(_Drawn):
    """1 with a probability, else 0, in the shape of the probabilities. One probability alone counts for each image of
    the batch. The optional second input is a seed, which goes before `seed`. Raises ValueError for a probability below
    0 or above 1."""

    parameters: ClassVar[Arguments] = {"seed": 100, "dtype": types.dtype.UINT8}

    def run(self, probability: Any, seed: Any = None) -> Any:
        limits = array(probability).astype(np.float64)
        if not ((limits >= 0) & (limits <= 1)).all():
            raise self.error(f"the probability is {limits.tolist()}; expected numbers from 0 to 1")
        if limits.size == 1:
            limits = np.repeat(limits.reshape(-1), self._batch)
        return cast(self.rng(seed).random(limits.shape) < limits, self.arguments["dtype"])


class RandomUniform(_Drawn):
    """Numbers from `low` to below `high` in the shape `dims`, the fastest changing dimension first ([batch] without
    it). The optional input is a seed."""

    parameters: ClassVar[Arguments] = {
        "low": 0.0,
        "high": 1.0,
        "seed": 100,
        "dims": None,
        "dtype": types.dtype.FLOAT32,
    }

    def run(self, seed: Any = None) -> Any:
        shape = tuple(self.arguments["dims"] or [self._batch])[::-1]
        drawn = self.rng(seed).uniform(self.arguments["low"], self.arguments["high"], shape)
        return cast(drawn, self.arguments["dtype"])


class RandomNormal(_Drawn):
    """Numbers of a normal distribution with the inputs' deviation and mean, in the shape of these. One deviation alone
    counts for each image of the batch. The optional third input is a seed."""

    parameters: ClassVar[Arguments] = {"seed": 100, "dims": None, "dtype": types.dtype.FLOAT32}

    def run(self, deviation: Any, mean: Any, seed: Any = None) -> Any:
        scale, loc = (array(v).astype(np.float64) for v in (deviation, mean))
        shape = np.broadcast_shapes(scale.shape, loc.shape)
        if self.arguments["dims"]:
            shape = tuple(self.arguments["dims"])[::-1]
        elif int(np.prod(shape)) == 1:
            shape = (self._batch,)
        return cast(self.rng(seed).normal(loc, scale, shape), self.arguments["dtype"])


class CropWindowGen(_Drawn):
    """A window of each image at random, as torchvision.transforms.RandomResizedCrop has it: of a share of its area from
    `scale_min` to `scale_max`, with a ratio of width to height from `ratio_min` to `ratio_max`.

    Input: the images' files. Output: float32 [batch, 4] (left, top, width, height as shares of the image), which
    ImageDecoder takes as its second input.
    """

    parameters: ClassVar[Arguments] = {
        "scale_min": 0.08,
        "scale_max": 1.0,
        "ratio_min": 3 / 4,
        "ratio_max": 4 / 3,
        "seed": None,
        "dtype": types.dtype.FLOAT32,
    }

    def run(self, files: Sequence[Any]) -> Any:
        given = self.arguments
        windows: list[Sequence[float]] = []
        for file in files:
            width, height = images.size_of(file)
            scale, ratio = (given["scale_min"], given["scale_max"]), (given["ratio_min"], given["ratio_max"])
            left, top, w, h = images.random_area(self._rng, width, height, scale, ratio)
            windows.append((left / width, top / height, w / width, h / height))
        made: Array = np.array(windows, np.float64)
        return cast(made, given["dtype"])
