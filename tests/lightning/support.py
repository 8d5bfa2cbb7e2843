"""A model, its data, and a quiet Trainer: what these tests train."""

from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

from lightning_habana import roots

pl: Any = roots.pytorch()
FEATURES = 16
CLASSES = 4
ROWS = 8


class Classifier(pl.LightningModule):
    """Two layers; logs as scripts do, and keeps what its steps saw."""

    def __init__(self, lr=0.05):
        super().__init__()
        self.save_hyperparameters()
        generator = torch.Generator().manual_seed(1)
        self.layers = torch.nn.Sequential(torch.nn.Linear(FEATURES, 32), torch.nn.ReLU(), torch.nn.Linear(32, CLASSES))
        for parameter in self.layers.parameters():
            parameter.data = torch.randn(parameter.shape, generator=generator) * 0.2
        self.devices = set()
        self.dtypes = set()
        self.losses = []

    def step(self, batch, name):
        images, labels = batch
        logits = self.layers(images)
        loss = torch.nn.functional.cross_entropy(logits, labels)
        self.devices.add(images.device.type)
        self.dtypes.add(logits.dtype)
        self.losses.append(loss.detach())
        self.log(f"{name}_loss", loss, on_step=name == "train", on_epoch=True, sync_dist=True)
        return loss

    def training_step(self, batch, batch_idx):
        return self.step(batch, "train")

    def validation_step(self, batch, batch_idx):
        self.step(batch, "val")

    def test_step(self, batch, batch_idx):
        self.step(batch, "test")

    def predict_step(self, batch, batch_idx):
        return self.layers(batch[0]).argmax(1)

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]

    def weights(self):
        return weights(self)


def weights(module):
    return torch.cat([parameter.detach().float().cpu().reshape(-1) for parameter in module.parameters()])


def whole_weights(module):
    """All weights of a module, also where DeepSpeed has divided them."""
    import deepspeed

    parameters = list(module.parameters())
    with deepspeed.zero.GatheredParameters(parameters, enabled=hasattr(parameters[0], "ds_id")):
        return weights(module)


def loader(batches=6, rows=ROWS):
    """Images that belong to the class whose template they are near."""
    generator = torch.Generator().manual_seed(3)
    templates = torch.randn(CLASSES, FEATURES, generator=generator)
    labels = torch.randint(CLASSES, (batches * rows,), generator=generator)
    images = templates[labels] + 0.3 * torch.randn(len(labels), FEATURES, generator=generator)
    return DataLoader(TensorDataset(images, labels), batch_size=rows)


def make_trainer(folder: Path | str | None = None, **arguments: Any):
    """A Trainer of two epochs that prints nothing and, without a folder, writes nothing."""
    quiet = {
        "max_epochs": 2,
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "default_root_dir": folder,
        "num_sanity_val_steps": 1,
    }
    return pl.Trainer(**quiet | arguments)


def halves():
    """This rank's half of each batch of `loader()`."""
    whole = loader().dataset
    half = ROWS // 2
    mine = [i for i in range(len(whole)) if (i % ROWS) // half == dist.get_rank()]
    return DataLoader(torch.utils.data.Subset(whole, mine), batch_size=half)


def fit_in_ranks(model, ckpt_path=None, **arguments):
    """Trains on two devices, on this rank's halves of the batches; the trainer."""
    trainer = make_trainer(accelerator="hpu", devices=2, use_distributed_sampler=False, **arguments)
    trainer.fit(model, halves(), loader(2), ckpt_path=ckpt_path)
    assert model.devices == {"hpu"}
    return trainer


def trained_on_cpu(**arguments: Any):
    """The weights that the same training has on the CPU accelerator."""
    model = Classifier()
    make_trainer(accelerator="cpu", devices=1, **arguments).fit(model, loader(), loader(2))
    return model.weights()
