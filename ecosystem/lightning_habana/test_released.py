"""The released lightning_habana, which knows nothing of this project: trainings with Lightning 2.4.0.

With 2.5.5 it makes groups of processes for a device without an index, which PyTorch refuses ("Please use a device_id
with index").
"""

import os

import pytest

from commands import ROOT
from tests import vision
from tests.processes import clean_environment, run_python

SITE = ROOT / "build" / "ecosystem" / "lightning-habana" / "site-packages"

START = """
import warnings
warnings.simplefilter("ignore")
import lightning_habana
assert lightning_habana.__version__ == "1.6.0", lightning_habana.__file__
import torch
from lightning.pytorch import LightningModule, Trainer, seed_everything
from lightning.pytorch.demos.boring_classes import BoringModel, RandomDataset
from torch.utils.data import DataLoader
from lightning_habana.pytorch.accelerator import HPUAccelerator
from lightning_habana.pytorch.strategies import *
from lightning_habana.pytorch.plugins import *

class Model(BoringModel):
    losses = ()
    def train_dataloader(self):
        torch.manual_seed(1)
        return DataLoader(RandomDataset(32, 64), batch_size=4)
    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)["loss"]
        assert self.layer.weight.device.type == batch.device.type == DEVICE
        self.losses = (*self.losses, loss.detach())
        self.log("loss", loss, sync_dist=True)
        return loss

def trained(**arguments):
    seed_everything(0)
    model = Model()
    trainer = Trainer(
        max_steps=6, logger=False, enable_progress_bar=False, enable_model_summary=False, limit_val_batches=2,
        **{"enable_checkpointing": False, **arguments},
    )
    trainer.fit(model)
    return trainer, model
DEVICE = "cpu"
on_cpu = torch.stack(trained(accelerator="cpu")[1].losses)
DEVICE = "hpu"
"""
PROGRAMS = {
    "one device": """
for arguments in ({"strategy": SingleHPUStrategy()}, {}):
    trainer, model = trained(accelerator=HPUAccelerator(), devices=1, **arguments)
    assert type(trainer.strategy).__name__ == "SingleHPUStrategy"
    torch.testing.assert_close(torch.stack(model.losses).cpu(), on_cpu)
trainer.validate(model), trainer.test(model), trainer.predict(model)
""",
    "by name": """
trainer, model = trained(accelerator="hpu", devices=1)
torch.testing.assert_close(torch.stack(model.losses).cpu(), on_cpu)
assert type(trainer.strategy).__module__.startswith("lightning_habana")
""",
    "bfloat16": """
plugin = HPUPrecisionPlugin(precision="bf16-mixed")
trainer, model = trained(accelerator=HPUAccelerator(), devices=1, plugins=[plugin])
losses = torch.stack(model.losses).cpu()
assert losses.dtype == torch.bfloat16 or not torch.equal(losses, on_cpu)
torch.testing.assert_close(losses.float(), on_cpu, rtol=2e-2, atol=2e-2)
""",
    "checkpoints": """
trainer, model = trained(accelerator=HPUAccelerator(), devices=1, plugins=[HPUCheckpointIO()])
trainer.save_checkpoint("saved.ckpt")
weights = torch.load("saved.ckpt", weights_only=False)["state_dict"]
assert all(value.device.type == "cpu" for value in weights.values())
again = Model()
Trainer(
    accelerator=HPUAccelerator(), devices=1, max_steps=8, logger=False, enable_progress_bar=False,
    enable_checkpointing=False,
).fit(again, ckpt_path="saved.ckpt")
assert len(again.losses) == 2
""",
    "graphs": """
import habana_frameworks.torch.core as htcore
class Captured(Model):
    def configure_model(self):
        pass
    def on_fit_start(self):
        self.layer = htcore.hpu.ModuleCacher(max_graphs=10)(model=self.layer, inplace=True)
Model = Captured
trainer, model = trained(accelerator=HPUAccelerator(), devices=1)
torch.testing.assert_close(torch.stack(model.losses).cpu(), on_cpu)
""",
}


def run(tmp_path, program, launcher=(), first="", **more):
    (tmp_path / "script.py").write_text(first + START + program)
    mode = os.environ.get("PT_HPU_LAZY_MODE", "0")
    paths = os.pathsep.join((str(SITE), str(ROOT)))
    environment = clean_environment(tmp_path, PT_HPU_LAZY_MODE=mode, PYTHONPATH=paths, **more)
    run_python([*launcher, "script.py"], tmp_path, environment, timeout=300)


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_process(tmp_path, name):
    run(tmp_path, PROGRAMS[name])


@pytest.mark.parametrize("strategy", ["HPUDDPStrategy()", "HPUParallelStrategy()", "HPUFSDPStrategy()"])
def test_two_devices(tmp_path, strategy):
    run(
        tmp_path,
        f"""
strategy = {strategy}
trainer, model = trained(accelerator=HPUAccelerator(), devices=2, strategy=strategy)
assert trainer.world_size == 2
assert torch.distributed.get_backend() == "hccl"
if type(strategy) is HPUDDPStrategy:
    weights = [torch.empty(2, 32, device="hpu") for _ in range(2)]
    torch.distributed.all_gather(weights, model.layer.weight.detach().to("hpu"))
    assert torch.equal(*weights)
""",
        launcher=("-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone"),
    )


@pytest.mark.skipif(vision.folder() is None, reason=vision.MISSING)
@pytest.mark.parametrize(("generation", "loader"), [("gaudi2", "MediaApiDataLoader"), ("gaudi", "HabanaDataLoader")])
def test_images(tmp_path, generation, loader):
    run(
        tmp_path,
        f"""
import pathlib, numpy, PIL.Image
from torchvision import transforms as t
from lightning_habana.pytorch.datamodule import HPUDataModule
rng = numpy.random.default_rng(0)
folder = pathlib.Path("imagenet")
for n in range(24):
    place = folder / ("train" if n % 3 else "val") / f"n{{n % 2}}"
    place.mkdir(parents=True, exist_ok=True)
    PIL.Image.fromarray(rng.integers(0, 256, (60, 80, 3), dtype=numpy.uint8)).save(place / f"{{n}}.JPEG")
normalize = t.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])
data = HPUDataModule(
    str(folder / "train"), str(folder / "val"), batch_size=4,
    train_transforms=[t.RandomResizedCrop(224), t.RandomHorizontalFlip(), t.ToTensor(), normalize],
    val_transforms=[t.Resize(256), t.CenterCrop(224), t.ToTensor(), normalize],
)
class Images(LightningModule):
    seen = 0
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Sequential(torch.nn.AvgPool2d(32), torch.nn.Flatten(), torch.nn.Linear(147, 2))
    def training_step(self, batch, batch_idx):
        images, labels = batch
        assert images.device.type == "hpu"
        assert images.shape == (4, 3, 224, 224)
        assert labels.dtype == torch.int64
        assert images.min() < -1
        assert images.max() > 1
        self.seen += len(images)
        return torch.nn.functional.cross_entropy(self.layer(images), labels)
    validation_step = training_step
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)
model = Images()
Trainer(
    accelerator=HPUAccelerator(), devices=1, max_epochs=2, logger=False, enable_progress_bar=False,
    enable_checkpointing=False, num_sanity_val_steps=0,
).fit(model, data)
assert type(data.train_dataloader()).__name__ == "{loader}"
assert model.seen == 2 * (16 + 8), model.seen
""",
        first="from tests import vision\nvision.load()\n",
        OPENHPU_GENERATION=generation,
    )
