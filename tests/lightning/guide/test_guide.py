"""Every block of code of the guide runs; those of DeepSpeed on two devices instead of eight."""

import os
import random
from contextlib import chdir, contextmanager
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch.utils.data import DataLoader, TensorDataset

from lightning_habana import HPUFSDPStrategy, HPUProfiler, roots
from lightning_habana.utils import resources
from tests.deepspeed.training import deepspeed_alone
from tests.distributed.ranks import ranks
from tests.lightning.guide.block import FOLDER, run
from tests.lightning.support import make_trainer

_batch_size = 32
NAMES = sorted(path.stem for path in FOLDER.glob("*.block"))

if roots.NAME != "lightning":
    pytest.skip("the guide imports lightning", allow_module_level=True)


class Net(roots.pytorch().LightningModule):
    """The model that the guide's samples leave out."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.layers = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
        self.losses = []

    def forward(self, x):
        return self.layers(x)

    def training_step(self, batch, batch_idx):
        loss = F.cross_entropy(self(batch[0]), batch[1])
        self.losses.append(loss.detach().clone())
        self.log("train_loss", loss)
        return loss

    def test_step(self, batch, batch_idx):
        self.losses.append(F.cross_entropy(self(batch[0]), batch[1]))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def digits(batches=6):
    data = load_digits()
    images = torch.from_numpy(data.data[: batches * _batch_size]).float() / 16
    labels = torch.from_numpy(data.target[: batches * _batch_size]).long()
    return DataLoader(TensorDataset(images, labels), batch_size=_batch_size)


def trainer(**arguments):
    return make_trainer(accelerator="hpu", devices=1, max_epochs=1, **arguments)


class Watch(roots.pytorch("callbacks").Callback):
    """Keeps the losses of a training."""

    def __init__(self):
        self.losses = []

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        self.losses.append(outputs["loss"].item())


def plain_losses(data):
    """Of the same training on the CPU, without graphs."""
    model = Net()
    make_trainer(accelerator="cpu", devices=1, max_epochs=1).fit(model, data)
    return [loss.item() for loss in model.losses]


def check(losses, expected):
    torch.testing.assert_close([float(loss) for loss in losses], expected, rtol=1e-4, atol=1e-5)


def test_every_block_has_a_test():
    source = Path(__file__).read_text()
    assert len(NAMES) == 26
    assert all(f'"{name}"' in source for name in NAMES)


@pytest.mark.parametrize("name", ["01-profiler", "02-profiler-ranks"])
def test_profiler(name):
    made = run(name)["trainer"]
    assert type(made.profiler) is HPUProfiler
    assert made.profiler.filename == ("perf-logs" if name.endswith("ranks") else None)


def test_ranges(capsys):
    names = run("03-profiler-ranges")
    model = names["model"]
    assert model.custom_processing_step_basic([1]) == model.custom_processing_step_granular([1]) == [1]
    names["profiler"].teardown(None)
    assert capsys.readouterr().out.count("do something") == 2


@contextmanager
def job(folder):
    """DeepSpeed in a job of two devices, which works in a folder of its own."""
    with deepspeed_alone(), chdir(folder), pytest.MonkeyPatch.context() as patch:
        patch.setattr(resources, "device_count", lambda: 2)
        yield


@pytest.mark.parametrize(
    "name",
    [
        "07-deepspeed-zero-1",
        "08-deepspeed-zero-2",
        "09-deepspeed-zero-3",
        "10-deepspeed-offload",
        "11-deepspeed-infinity",
        "12-deepspeed-bf16",
    ],
)
@ranks(2, backend="hccl")
def test_deepspeed_trains(name, tmp_path):
    from lightning.pytorch.demos.boring_classes import BoringModel

    with job(tmp_path):
        made = run(name, smaller=[("devices=8", "devices=2")])["trainer"]
        made.fit_loop.max_epochs = 1
        made.fit(BoringModel())
        assert made.global_step == 32
        assert made.world_size == 2
        assert made.strategy.model.bfloat16_enabled()
        assert made.strategy.model.zero_optimization_stage() == {"07": 1, "09": 3}.get(name[:2], 2)
        offload = made.strategy.model.zero_offload_optimizer()
        assert (offload is not None and offload.device == "cpu") == (name[:2] in ("10", "11"))


@pytest.mark.parametrize(("name", "steps"), [("06-deepspeed", 32), ("13-deepspeed-bf16-optimizer", 4)])
@ranks(2, backend="hccl")
def test_deepspeed(name, steps, tmp_path):
    with job(tmp_path):
        made = run(name)["trainer"]
        assert made.global_step == steps
        assert made.strategy.model.bfloat16_enabled()
        scheduler = type(made.lr_scheduler_configs[0].scheduler).__name__
        assert scheduler == ("StepLR" if steps == 32 else "WarmupDecayLR")


@ranks(2, backend="hccl")
def test_deepspeed_activations(tmp_path):
    with job(tmp_path):
        names = run("14-deepspeed-activations")

        class Trained(names["SampleModel"]):
            def training_step(self, batch, batch_idx):
                return self(batch).square().mean()

            def configure_optimizers(self):
                return torch.optim.AdamW(self.parameters(), lr=0.01)

        made = names["trainer"]
        made.fit_loop.max_epochs = 1
        made.fit(Trained(), DataLoader(torch.ones(16, 32), batch_size=2))
        assert made.global_step == 4
        assert made.strategy.zero_stage_3


@pytest.mark.parametrize(
    ("name", "devices", "parts"),
    [
        ("15-deepspeed-inference-arguments", 8, 8),
        ("16-deepspeed-inference-kwargs", 4, 4),
        ("17-deepspeed-inference-config", 8, 4),
    ],
)
@ranks(2, backend="hccl")
def test_deepspeed_inference(name, devices, parts, tmp_path):
    with job(tmp_path):
        pairs = (("] * {}", devices), ("devices={}", devices), ('"tp_size": {}', parts))
        names = run(name, smaller=[(text.format(number), text.format(2)) for text, number in pairs])
        data = DataLoader(torch.randn(4, 32, generator=torch.Generator().manual_seed(2)), batch_size=2)
        found = names["trainer"].predict(names["model"], data)
        assert type(names["trainer"].strategy.model).__name__ == "InferenceEngine"
        plain = names["model"].cpu()
        with torch.no_grad():
            torch.testing.assert_close(torch.cat(found).cpu(), plain(torch.cat(list(data))), rtol=0.02, atol=0.02)


@ranks(2, backend="hccl")
def test_fsdp(tmp_path):
    from lightning.pytorch.demos.boring_classes import BoringModel

    made = run("18-fsdp")["trainer"]
    made.fit(BoringModel())
    assert made.global_step == 10
    assert type(made.strategy) is HPUFSDPStrategy
    assert made.world_size == 2
    assert run("19-fsdp-sharding")["trainer"].strategy.sharding_strategy.name == "FULL_SHARD"
    names = run("20-fsdp-model", tmpdir=tmp_path, hpus=2)
    names["trainer"].limit_train_batches = 4
    names["trainer"].fit(names["MyModel"]())
    assert names["trainer"].precision_plugin.precision == "bf16-mixed"
    assert names["trainer"].strategy.sharding_strategy.name == "SHARD_GRAD_OP"


def test_capture_and_replay_training():
    model = run("21-graph-training", Net=Net, _batch_size=_batch_size)["HPUGraphsModel"]()
    watch, data = Watch(), digits()
    # The first batch is the placeholders' numbers: so is the reference's.
    first = (model.static_input.cpu(), model.static_target.cpu())
    trainer(callbacks=[watch]).fit(model, data)
    check(watch.losses, plain_losses(DataLoader([first, *list(data)[1:]], batch_size=None)))


def test_make_graphed_callables():
    made = trainer()
    names = run("22-graphed-callables", Net=Net, _batch_size=_batch_size, trainer=made, data_module=digits())
    check(names["model"].losses, plain_losses(digits()))


def test_module_cacher():
    names = run("23-module-cacher", Net=Net, trainer=trainer(), data_module=digits(), max_graphs=4)
    check(names["model"].losses, plain_losses(digits()))


def test_capture_and_replay_inference():
    model = run("24-graph-inference", Net=Net, _batch_size=_batch_size)["HPUGraphsModel"]()
    trainer().test(model, digits(), verbose=False)
    images, labels = list(digits())[-1]
    check([model.static_loss], [F.cross_entropy(Net()(images), labels).item()])


def test_wrap_in_hpu_graph():
    model = run("25-wrap-in-hpu-graph", Net=Net, trainer=trainer(), data_module=digits())["model"]
    with torch.no_grad():
        check(model.losses, [F.cross_entropy(Net()(images), labels).item() for images, labels in digits()])


@pytest.mark.parametrize(("name", "relu"), [("26-dynamic-control-flow", True), ("27-dynamic-ops", False)])
def test_dynamicity(name, relu):
    random.seed(2)
    model = run(name, Net=Net, max_graphs=10)["HPUGraphsModel"]()
    watch = Watch()
    trainer(callbacks=[watch]).fit(model, digits())
    random.seed(2)
    plain = Net().layers
    expected = []
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.1)
    for images, labels in digits():
        out = plain(images)
        if relu:
            loss = F.cross_entropy(out if random.random() > 0.5 else out.relu(), labels)
        else:
            out = out[torch.where(out < 0)]
            loss = F.mse_loss(out, -torch.ones_like(out))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        expected.append(loss.item())
    check(watch.losses, expected)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # Dynamo's, at a break
@pytest.mark.skipif(os.environ.get("PT_HPU_LAZY_MODE") == "1", reason="torch.compile is for eager mode, as on a Gaudi")
def test_compile():
    model = Net()
    names = run("28-compile", model_to_train=model, model_to_eval=Net())
    made = trainer()
    made.fit(names["compiled_train_model"], digits())
    check(model.losses, plain_losses(digits()))
    made.test(names["compiled_eval_model"], digits(), verbose=False)
