"""Gaudi's data loader."""

import importlib

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import habana_dataloader
from tests import vision
from tests.processes import clean_environment, run_python


def test_it_is_pytorchs(monkeypatch):
    data = TensorDataset(torch.arange(10))
    loader = habana_dataloader.HabanaDataLoader(data, batch_size=4, num_workers=0, pin_memory=True, drop_last=True)
    assert isinstance(loader, DataLoader)
    assert [batch.tolist() for (batch,) in loader] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert all(batch.is_pinned() for (batch,) in loader)
    assert loader.fallback_reason == "the dataset is a TensorDataset, not torchvision's ImageFolder"
    assert len(loader.dataloader) == 2
    assert loader.dataloader.aeon is None
    monkeypatch.setattr(habana_dataloader.HabanaDataLoader, "__len__", lambda self: len(self.dataloader))
    assert len(loader) == 2


def test_without_fallback(monkeypatch):
    monkeypatch.setenv("DATALOADER_FALLBACK_EN", "0")
    with pytest.raises(RuntimeError, match=r"DATALOADER_FALLBACK_EN=0 forbids PyTorch's data loader.*is a list"):
        habana_dataloader.HabanaDataLoader([1])


def test_a_first_gaudis_decoder_is_refused_by_name():
    for name in ("aeon_config", "aeon_transformers", "aeon_manifest"):
        with pytest.raises(
            ImportError, match=rf"habana_dataloader.{name} is not there: it belongs to the decoder of a first"
        ):
            importlib.import_module(f"habana_dataloader.{name}")
    with pytest.raises(AttributeError, match=r"habana_dataloader.aeon_loader is not there: it belongs to the decoder"):
        _ = habana_dataloader.aeon_loader


# torchvision is loaded in a process of its own: it stays for the rest of one.
FOLDER = """
import numpy, torch
from tests import vision
vision.load()
from PIL import Image
from torch.utils.data import DataLoader
from torchvision import datasets, transforms as t
from habana_dataloader import HabanaDataLoader
from habana_dataloader.habana_dataset import ImageFolderWithManifest

rng = numpy.random.default_rng(0)
for n in range(11):
    folder = tmp / f"class{n % 3}"
    folder.mkdir(exist_ok=True)
    size = (int(rng.integers(40, 90)), int(rng.integers(40, 90)))
    image = Image.fromarray(rng.integers(0, 256, (5, 5, 3), dtype=numpy.uint8)).resize(size)
    image.convert("L" if n == 4 else "RGB").save(folder / f"{n}.jpg")
NORMALIZE = t.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
EVALUATION = t.Compose([t.Resize(40), t.CenterCrop(32), t.ToTensor(), NORMALIZE])
TRAINING = t.Compose([t.RandomResizedCrop(32), t.RandomHorizontalFlip(), t.ToTensor(), NORMALIZE])
"""


def run(tmp_path, program, **more):
    start = f"from pathlib import Path\ntmp = Path({str(tmp_path)!r}) / 'images'\ntmp.mkdir(parents=True)\n"
    command = ["-W", "ignore", "-c", start + FOLDER + program]
    run_python(command, vision.ROOT, clean_environment(tmp_path, **more))


needs_torchvision = pytest.mark.skipif(vision.folder() is None, reason=vision.MISSING)


@needs_torchvision
def test_images_of_a_folder(tmp_path):
    run(
        tmp_path,
        """
for transform in (
    EVALUATION, t.Compose([t.Resize((20, 30)), t.ToTensor()]), t.Compose([t.CenterCrop(32), t.ToTensor()])
):
    for arguments in (
        {}, {"drop_last": True, "pin_memory": True}, {"shuffle": True},
        {"batch_sampler": [[3, 1], [0, 10, 4]]}, {"sampler": [5, 1, 0, 2, 3]},
    ):
        data = datasets.ImageFolder(tmp, transform, target_transform=lambda target: 10 * target)
        size = {} if "batch_sampler" in arguments else {"batch_size": 4}
        loaders = [
            kind(data, num_workers=workers, generator=torch.Generator().manual_seed(3), **size, **arguments)
            for kind, workers in ((HabanaDataLoader, 3), (DataLoader, 0))
        ]
        assert loaders[0].fallback_reason is None
        assert len(loaders[0]) == len(loaders[1])
        ours, theirs = (list(loader) for loader in loaders)
        assert len(ours) == len(theirs)
        for (images, targets), (their_images, their_targets) in zip(ours, theirs, strict=True):
            assert torch.equal(images, their_images)
            assert torch.equal(targets, their_targets)
            assert images.is_contiguous()
            assert images.is_pinned() == targets.is_pinned() == ("pin_memory" in arguments)

# Random crops and flips.
ramp = numpy.zeros((60, 80, 3), dtype=numpy.uint8)
ramp[..., 0] = numpy.arange(80) * 3  # red says how far to the right, green how far down
ramp[..., 1] = numpy.arange(60)[:, None] * 4
(tmp / "ramp").mkdir()
for n in range(40):
    Image.fromarray(ramp).save(tmp / "ramp" / f"{n}.png")
transform = t.Compose([t.RandomResizedCrop(32), t.RandomHorizontalFlip(), t.ToTensor()])
data = datasets.ImageFolder(tmp, transform, is_valid_file=lambda path: "ramp" in path, allow_empty=True)
def loaded(seed):
    loader = HabanaDataLoader(data, batch_size=16, num_workers=2, generator=torch.Generator().manual_seed(seed))
    assert loader.fallback_reason is None
    return torch.cat([images for images, _ in loader]), torch.cat([images for images, _ in loader])
first, second = loaded(1)
assert not torch.equal(first, second)
assert all(torch.equal(a, b) for a, b in zip(loaded(1), (first, second)))
images = torch.cat((first, second))
flipped = images[:, 0, :, 0].mean(1) > images[:, 0, :, -1].mean(1)
assert 20 < flipped.sum() < 60
areas = (images[:, 0].amax((1, 2)) - images[:, 0].amin((1, 2))) * 255 / 3 / 80 * (
    (images[:, 1].amax((1, 2)) - images[:, 1].amin((1, 2))) * 255 / 4 / 60)
assert areas.min() < 0.3, areas
assert areas.max() > 0.7, areas
assert 0.4 < areas.mean() < 0.65, areas
""",
    )


@needs_torchvision
def test_what_is_left_to_pytorchs_loader(tmp_path):
    run(
        tmp_path,
        """
import os
def why(transform=EVALUATION, workers=2, kind=datasets.ImageFolder, folder={}, **arguments):
    loader = HabanaDataLoader(kind(tmp, transform, **folder), num_workers=workers, **arguments)
    assert workers or len(list(loader)) == 11
    return loader.fallback_reason
class Own(datasets.ImageFolder):
    def __getitem__(self, index):
        return super().__getitem__(index)
assert why(kind=ImageFolderWithManifest) is None
assert why(workers=0) == "num_workers=0"
assert why(kind=Own) == "Own has items of its own"
assert why(folder={"loader": Image.open}) == "the ImageFolder has a loader of its own"
assert why(collate_fn=list).startswith("collate_fn=")
assert why(None, batch_size=None) is not None
assert why(t.CenterCrop(32)) == "the transforms (CenterCrop) do not end in ToTensor or ToTensor, Normalize"
assert "do not make images of one size" in why(t.Compose([t.Resize(40), t.ToTensor()]))
assert "do not make images of one size" in why(t.ToTensor())
assert why(t.Compose([t.ColorJitter(0.1), t.RandomResizedCrop(32), t.ToTensor()])) is not None
# A broken image is named.
(tmp / "class1" / "broken.jpg").write_bytes((tmp / "class1" / "1.jpg").read_bytes()[:200])
import PIL
loader = HabanaDataLoader(datasets.ImageFolder(tmp, TRAINING), batch_size=4, num_workers=2)
for _ in range(2):  # the loader goes on
    try:
        list(loader)
    except OSError as error:
        assert "broken.jpg" in error.__notes__[0]
    else:
        raise AssertionError
for images, targets in loader:
    break  # what was begun is left
os.environ["PT_HPU_MEDIA_PIPE"] = "0"
assert why() == "PT_HPU_MEDIA_PIPE=0"
""",
    )
    first = "assert 'gaudi, which' in HabanaDataLoader(datasets.ImageFolder(tmp)).fallback_reason"
    run(tmp_path / "first", first, OPENHPU_GENERATION="gaudi")
