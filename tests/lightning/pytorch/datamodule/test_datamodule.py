"""HPUDataModule."""

import os

import pytest

from lightning_habana import roots
from lightning_habana.pytorch.datamodule import HPUDataModule
from tests import vision
from tests.lightning.conftest import environment_of
from tests.processes import run_python

# torchvision is loaded in processes of their own: it stays for the rest of one.
SCRIPT = """
import pathlib, sys
import numpy, PIL.Image, torch
from tests import vision
vision.load()
from torchvision import datasets, transforms as t
from habana_dataloader import HabanaDataLoader
from lightning.pytorch import LightningModule, Trainer
from lightning_habana.pytorch import HPUDataModule

rng = numpy.random.default_rng(0)
folder, devices = pathlib.Path(sys.argv[1]), int(sys.argv[2])
for n in range(24 if not folder.exists() else 0):
    place = folder / ("train" if n % 3 else "val") / f"class{n % 2}"
    place.mkdir(parents=True, exist_ok=True)
    PIL.Image.fromarray(rng.integers(0, 256, (60, 80, 3), dtype=numpy.uint8)).save(place / f"{n}.jpg")

class Images(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Sequential(torch.nn.AvgPool2d(16), torch.nn.Flatten(), torch.nn.Linear(12, 2))
        self.seen = {"train": [], "val": []}
    def step(self, batch, stage):
        images, labels = batch
        assert images.device.type == labels.device.type == "hpu"
        assert images.shape[1:] == (3, 32, 32)
        self.seen[stage].append(images.cpu())
        return torch.nn.functional.cross_entropy(self.layer(images), labels)
    def training_step(self, batch, batch_idx):
        return self.step(batch, "train")
    def validation_step(self, batch, batch_idx):
        self.step(batch, "val")
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)

evaluation = t.Compose([t.Resize(40), t.CenterCrop(32), t.ToTensor()])
data = HPUDataModule(
    folder / "train", str(folder / "val"), batch_size=3, num_workers=2, shuffle=True, normalize=True,
    train_transforms=[t.RandomResizedCrop(32), t.RandomHorizontalFlip(), t.ToTensor()], val_transforms=evaluation,
)
model = Images()
trainer = Trainer(
    accelerator="hpu", devices=devices, max_epochs=1, logger=False, enable_progress_bar=False,
    enable_checkpointing=False, enable_model_summary=False, num_sanity_val_steps=0,
)
trainer.fit(model, data)
for loader in (trainer.train_dataloader, trainer.val_dataloaders):
    assert type(loader) is HabanaDataLoader, loader.fallback_reason
    assert loader.fallback_reason is None, loader.fallback_reason
assert [len(model.seen[stage]) for stage in ("train", "val")] == ([5, 3] if devices == 1 else [2, 2])
if devices == 1:
    normalize = t.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
    expected = datasets.ImageFolder(folder / "val", t.Compose([*evaluation.transforms, normalize]))
    torch.testing.assert_close(torch.cat(model.seen["val"]), torch.stack([image for image, _ in expected]))
"""


@pytest.mark.skipif(vision.folder() is None, reason=vision.MISSING)
@pytest.mark.parametrize("devices", [1, 2])
def test_training(tmp_path, devices):
    (tmp_path / "script.py").write_text(SCRIPT)
    environment = environment_of(tmp_path)
    environment["PYTHONPATH"] += f"{os.pathsep}{vision.ROOT}"
    run_python(["-W", "ignore", "script.py", str(tmp_path / "images"), str(devices)], tmp_path, environment)


def test_bad_input(tmp_path):
    data = HPUDataModule(tmp_path / "train", tmp_path)
    with pytest.raises(roots.MisconfigurationException, match=r"call setup\(\) before"):
        data.train_dataloader()
    with pytest.raises(
        roots.MisconfigurationException, match=r"train_dir='.*train' is not a folder; expected one with"
    ):
        data._folder("train_dir")


def test_defaults():
    data = HPUDataModule()
    assert (data.num_workers, data.batch_size, data.shuffle, data.drop_last) == (8, 32, False, True)
    with pytest.raises(roots.MisconfigurationException, match="val_dir=None is not a folder; expected one with"):
        data._folder("val_dir")
