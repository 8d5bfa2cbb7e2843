"""Operators that draw numbers."""

import numpy as np
import PIL.Image
import pytest

from habana_frameworks.mediapipe import fn
from habana_frameworks.mediapipe.media_types import dtype
from habana_frameworks.mediapipe.mediapipe import MediaPipe


def prepared(node, batch=1000):
    node.prepare(MediaPipe("cpu", 1, batch))
    return node


def test_coins():
    one = np.array([0.3], np.float32)
    first = prepared(fn.CoinFlip(seed=1))
    drawn = first.run(one)
    assert (drawn.shape, drawn.dtype) == ((1000,), np.uint8)
    assert set(np.unique(drawn)) == {0, 1}
    assert 230 < drawn.sum() < 370
    assert (first.run(one) != drawn).any()
    assert (prepared(fn.CoinFlip(seed=1)).run(one) == drawn).all()
    assert (prepared(fn.CoinFlip(seed=2)).run(one) != drawn).any()
    assert (first.run(one, np.array([1])) == first.run(one, np.array([1]))).all()
    each = prepared(fn.CoinFlip(dtype=dtype.INT32)).run(np.array([0.0, 1.0, 1.0]))
    assert (each.tolist(), each.dtype) == ([0, 1, 1], np.int32)
    with pytest.raises(ValueError, match=r"fn.CoinFlip: the probability is \[2.0\]; expected numbers from 0 to 1"):
        first.run(np.array([2.0]))


def test_numbers():
    assert fn.Constant(constant=2.6).run().tolist() == [3]
    assert fn.Constant(constant=2.6, dtype=dtype.FLOAT32).run().tolist() == [np.float32(2.6)]
    uniform = prepared(fn.RandomUniform(low=2, high=4, seed=1)).run()
    assert (uniform.shape, uniform.dtype) == ((1000,), np.float32)
    assert 2 <= uniform.min() < 2.1 < 3.9 < uniform.max() <= 4
    assert prepared(fn.RandomUniform(dims=[2, 3])).run().shape == (3, 2)
    normal = prepared(fn.RandomNormal(seed=1)).run(np.array([2.0]), np.array([5.0]))
    assert abs(normal.mean() - 5) < 0.3
    assert abs(normal.std() - 2) < 0.3


def test_windows_are_those_that_the_decoder_takes(tmp_path):
    """Each is a whole number of pixels, of the chosen area and ratio."""
    PIL.Image.new("RGB", (97, 61)).save(tmp_path / "a.png")
    node = prepared(fn.CropWindowGen(seed=5, scale_min=0.2, ratio_min=0.5, ratio_max=2.0))
    windows = node.run([str(tmp_path / "a.png")] * 200)
    assert (windows.shape, windows.dtype) == ((200, 4), np.float32)
    pixels = windows * np.array([97, 61, 97, 61])
    np.testing.assert_allclose(pixels, pixels.round(), atol=1e-4)
    area, ratio = pixels[:, 2] * pixels[:, 3] / (97 * 61), pixels[:, 2] / pixels[:, 3]
    assert 0.19 < area.min() < 0.3 < 0.8 < area.max() <= 1
    assert 0.47 < ratio.min() < 0.7 < 1.5 < ratio.max() < 2.1
    decode = prepared(fn.ImageDecoder(seed=0))
    for window, (left, top, width, height) in zip(windows, pixels.round().astype(int), strict=True):
        assert decode._box(97, 61, 0, window) == (left, top, width, height)
