"""The operators on colours: JPEG's formulas."""

import numpy as np
import PIL.Image
import pytest

from habana_frameworks.mediapipe import fn
from habana_frameworks.mediapipe.media_types import dtype

RGB = np.random.default_rng(0).integers(0, 256, (3, 8, 6, 3), dtype=np.uint8)


def pillows(space):
    made = np.stack([np.asarray(PIL.Image.fromarray(image).convert(space)) for image in RGB])
    return made if made.ndim == 4 else made[..., None]


def near(found, expected):
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype == np.uint8
    assert np.abs(found.astype(int) - expected.astype(int)).max() <= 1


def converted(mode, images):
    return fn.ColorSpaceConversion(colorSpaceMode=mode).run(images)


def test_spaces_are_pillows():
    grey, ycbcr = pillows("L"), pillows("YCbCr")
    bgr = RGB[..., ::-1]
    for mode, images in ((0, RGB), (5, bgr)):
        near(converted(mode, images), ycbcr)
    for mode, images in ((9, RGB), (11, bgr), (10, ycbcr)):
        near(converted(mode, images), grey)
    for mode, images in ((1, RGB), (4, bgr)):
        assert (converted(mode, images) == images[..., ::-1]).all()
    images = [PIL.Image.frombytes("YCbCr", (6, 8), image.tobytes()) for image in ycbcr]
    back = np.stack([np.asarray(image.convert("RGB")) for image in images])
    near(converted(2, ycbcr), back)
    assert (converted(3, ycbcr) == converted(2, ycbcr)[..., ::-1]).all()
    for mode in (6, 7):
        assert (converted(mode, grey) == np.repeat(grey, 3, axis=3)).all()
    assert (converted(8, grey) == np.concatenate((grey, np.full_like(grey, 128), np.full_like(grey, 128)), 3)).all()
    planar = RGB.transpose(0, 3, 1, 2)
    assert (converted(0, planar) == converted(0, RGB).transpose(0, 3, 1, 2)).all()


def test_a_number_for_each_image():
    made = fn.Brightness(dtype=dtype.FLOAT32).run(RGB, np.array([0.5, 1, 2], np.float32))
    assert (made == RGB * np.array([0.5, 1, 2], np.float32)[:, None, None, None]).all()
    assert (fn.Contrast(contrast_scale=1).run(RGB) == RGB).all()
    assert (fn.Saturation(saturation_level=1).run(RGB) == RGB).all()
    near(fn.Hue(degree=360).run(RGB), RGB)


@pytest.mark.parametrize(
    ("node", "inputs", "text"),
    [
        (lambda: fn.ColorSpaceConversion(colorSpaceMode=12), (RGB,), "colorSpaceMode is 12; expected a number from 0"),
        (lambda: fn.ColorSpaceConversion(colorSpaceMode=6), (RGB,), "images with 1 channels; got .*8, 6, 3"),
        (lambda: fn.Hue(), (np.zeros((4, 4)),), "expected a batch of images with 3 channels"),
        (lambda: fn.Brightness(), (RGB, np.ones(2)), "got 2 numbers for 3 images"),
    ],
)
def test_bad_input(node, inputs, text):
    with pytest.raises(ValueError, match=text):
        node().run(*inputs)
