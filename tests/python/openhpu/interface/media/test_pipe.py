"""Media pipes, and PyTorch's iterators over them."""

import threading

import numpy as np
import PIL.Image
import pytest
import torch

from habana_frameworks.mediapipe import fn
from habana_frameworks.mediapipe.media_types import dtype, imgtype
from habana_frameworks.mediapipe.mediapipe import MediaPipe
from habana_frameworks.mediapipe.plugins.iterator_pytorch import HPUResnetPytorchIterator


class Pipe(MediaPipe):
    def __init__(self, folder, device="hpu", out=dtype.FLOAT32, **arguments):
        super().__init__(device, 2, 4, type(self).__name__)  # the older order
        self.input = fn.ReadImageDatasetFromDir(dir=str(folder), format="png", **arguments)
        self.decode = fn.ImageDecoder(output_format=imgtype.RGB_P, resize=[8, 6])
        self.mean = fn.MediaConst(data=np.full(3, 128, np.float32), shape=[1, 1, 3], dtype=dtype.FLOAT32)
        self.scale = fn.MediaConst(data=np.full(3, 1 / 64, np.float32), shape=[1, 1, 3], dtype=dtype.FLOAT32)
        self.norm = fn.CropMirrorNorm(dtype=out)

    def definegraph(self):
        files, labels = self.input()
        return self.norm(self.decode(files), self.mean(), self.scale()), labels


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    for n in range(10):
        place = tmp_path / "images" / f"class{n % 2}"
        place.mkdir(parents=True, exist_ok=True)
        PIL.Image.fromarray(rng.integers(0, 256, (12, 16, 3), dtype=np.uint8)).save(place / f"{n}.png")
    return tmp_path / "images"


@pytest.mark.parametrize("device", ["hpu", "cpu"])
def test_batches_for_pytorch(folder, device):
    batches = HPUResnetPytorchIterator(Pipe(folder, device, shuffle=False, drop_remainder=True))
    assert len(batches) == 2
    for _ in range(2):
        found = list(batches)
        assert len(found) == 2
        for images, labels in found:
            assert images.device.type == labels.device.type == device
            assert images.shape == (4, 3, 6, 8)
            assert images.dtype == torch.float32
            assert labels.dtype == torch.int64
    image = np.asarray(PIL.Image.open(folder / "class0" / "0.png").resize((8, 6), 2)).transpose(2, 0, 1)
    assert torch.equal(found[0][0][0].cpu(), (torch.tensor(image).float() - 128) / 64)


def test_by_hand(folder):
    pipe = Pipe(folder, out=dtype.BFLOAT16, seed=3)
    with pytest.raises(RuntimeError, match="call build"):
        pipe.iter_init()
    pipe.build()
    with pytest.raises(RuntimeError, match=r"media pipe Pipe: call iter_init\(\) before run\(\)"):
        pipe.run()
    assert (pipe.getBatchSize(), pipe.get_batch_count()) == (4, 3)
    pipe.iter_init()
    images, labels = pipe.run()
    assert images.shape == [8, 6, 3, 4]
    assert images.dtype == "bfloat16"
    assert images.as_torch().dtype == torch.bfloat16
    assert images.as_cpu().as_nparray().dtype == np.float32
    assert labels.as_cpu().as_nparray().shape == (4,)
    for _ in range(2):
        pipe.run()
    for _ in range(2):
        with pytest.raises(StopIteration):
            pipe.run()


def test_an_epoch_that_is_left_ends_its_thread(folder):
    pipe = Pipe(folder)
    pipe.build()
    for _ in range(20):
        pipe.iter_init()
        pipe.run()
    pipe.close_epoch()
    assert not [t for t in threading.enumerate() if t.name == "openhpu-media-pipe" and t.is_alive()]


def test_bad_arguments():
    with pytest.raises(ValueError, match="device is 'cuda'; one of 'hpu', 'cpu'"):
        MediaPipe("cuda")
    with pytest.raises(ValueError, match="batch_size is 0; expected an integer of at least 1"):
        MediaPipe("cpu", 2, 0)
    with pytest.raises(NotImplementedError, match=r"MediaPipe has no definegraph\(\)"):
        MediaPipe("cpu").build()
    with pytest.raises(TypeError, match="mediapipe is a list"):
        HPUResnetPytorchIterator([])
