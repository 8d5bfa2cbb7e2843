"""Pipes and operators beside torchvision's transforms."""

import pytest

from tests import vision
from tests.processes import clean_environment, run_python

START = """
import numpy as np, torch
from pathlib import Path
from tests import vision
vision.load()
from PIL import Image
from torchvision.transforms import functional
from habana_frameworks.mediapipe import fn
from habana_frameworks.mediapipe.media_types import dtype, ftype, imgtype
from habana_frameworks.mediapipe.mediapipe import MediaPipe
from habana_frameworks.mediapipe.plugins.iterator_pytorch import CPUHPUResnetPytorchIterator
"""

# Each operator on colours, with factors.
COLOURS = """
images = np.random.default_rng(0).integers(0, 256, (3, 3, 8, 6), dtype=np.uint8)
def near(node, adjusted):
    expected = torch.stack([adjusted(image) for image in torch.from_numpy(images)]).numpy()
    assert np.abs(node.run(images).astype(int) - expected.astype(int)).max() <= 1, node

for factor in (0.0, 0.4, 1.0, 1.7):
    near(fn.Brightness(brightness_scale=factor), lambda image: functional.adjust_brightness(image, factor))
    near(fn.Contrast(contrast_scale=factor), lambda image: functional.adjust_contrast(image, factor))
    near(fn.Saturation(saturation_level=factor), lambda image: functional.adjust_saturation(image, factor))
for degree in (-90, 0, 45, 180):
    near(fn.Hue(degree=degree), lambda image: functional.adjust_hue(image, degree / 360))
"""

# A classifier's pipe. torchvision's transforms get the windows and the flips that the pipe has drawn.
CLASSIFIER = """
rng = np.random.default_rng(0)
root = Path("images")
for n in range(8):
    (root / f"class{n % 2}").mkdir(parents=True, exist_ok=True)
    pixels = rng.integers(0, 256, (int(rng.integers(40, 90)), int(rng.integers(40, 90)), 3), dtype=np.uint8)
    Image.fromarray(pixels).save(root / f"class{n % 2}" / f"{n}.jpg")
MEAN, STD = np.array([0.485, 0.456, 0.406], np.float32), np.array([0.229, 0.224, 0.225], np.float32)

class Pipe(MediaPipe):
    def __init__(self):
        super().__init__("cpu", 2, 4, 2, "classifier")
        self.read = fn.ReadImageDatasetFromDir(dir=str(root), format="jpg", seed=1, shuffle=True)
        self.window = fn.CropWindowGen(seed=2)
        self.decode = fn.ImageDecoder(output_format=imgtype.RGB_P, resize=[24, 20], resampling_mode=ftype.BI_LINEAR)
        self.half = fn.Constant(constant=0.5, dtype=dtype.FLOAT32)
        self.coin = fn.CoinFlip(seed=3)
        self.flip = fn.RandomFlip(horizontal=1)
        self.mean = fn.MediaConst(data=MEAN * 255, shape=[1, 1, 3], dtype=dtype.FLOAT32)
        self.std = fn.MediaConst(data=1 / (STD * 255), shape=[1, 1, 3], dtype=dtype.FLOAT32)
        self.norm = fn.CropMirrorNorm(crop_w=24, crop_h=20, dtype=dtype.FLOAT32)

    def definegraph(self):
        files, labels = self.read()
        windows, flips = self.window(files), self.coin(self.half())
        images = self.flip(self.decode(files, windows), flips)
        return self.norm(images, self.mean(), self.std()), labels

pipe = Pipe()
iterator = CPUHPUResnetPytorchIterator(pipe)
seen = []
for name in ("window", "coin", "read"):
    node = getattr(pipe, name)
    node.run = (lambda run, name: lambda *inputs: seen.append((name, run(*inputs))) or seen[-1][1])(node.run, name)
for images, labels in iterator:
    pass
of = {name: [found for kind, found in seen if kind == name] for name in ("read", "window", "coin")}
files, kinds = of["read"][-1]
for n, (file, window, flip) in enumerate(zip(files, of["window"][-1], of["coin"][-1], strict=True)):
    image = Image.open(file).convert("RGB")
    left, top, width, height = np.round(window * np.tile([image.width, image.height], 2)).astype(int).tolist()
    image = functional.resized_crop(image, top, left, height, width, [20, 24])
    image = functional.hflip(image) if flip else image
    expected = functional.normalize(functional.to_tensor(image), MEAN.tolist(), STD.tolist())
    torch.testing.assert_close(images[n], expected, rtol=1e-4, atol=1e-4)
assert labels.tolist() == kinds.tolist()
assert labels.dtype == torch.int64
assert len(set(map(int, np.concatenate(of["coin"])))) == 2
"""


@pytest.mark.skipif(vision.folder() is None, reason=vision.MISSING)
def test_colours_and_a_classifiers_pipe_are_torchvisions(tmp_path):
    """One process for both: to load torchvision takes most of the time."""
    environment = clean_environment(tmp_path)
    environment["PYTHONPATH"] = f"{vision.ROOT}:{environment['PYTHONPATH']}"
    run_python(["-W", "ignore", "-c", START + COLOURS + CLASSIFIER], tmp_path, environment)
