"""Trainer on two devices that share a model's weights."""

import pytest
import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel

from lightning_habana import HPUFSDPPrecision, HPUFSDPPrecisionPlugin, HPUFSDPStrategy, HPUPrecisionPlugin, roots
from tests.distributed.ranks import ranks
from tests.lightning.support import Classifier, fit_in_ranks, loader, make_trainer, trained_on_cpu

LAYERS = {torch.nn.Linear}


class Built(Classifier):
    """Makes its layers where the strategy asks for them; keeps what FSDP gathered last."""

    def configure_model(self):
        if not any(isinstance(module, FullyShardedDataParallel) for module in self.modules()):
            self.layers = Classifier().layers

    def on_train_end(self):
        with FullyShardedDataParallel.summon_full_params(self.trainer.strategy.model):
            self.gathered = self.weights()
        self.sharded = sum(parameter.numel() for parameter in self.layers.parameters())


def fit(epochs=2, ckpt_path=None, precision=None, **arguments):
    model = Built()
    strategy = HPUFSDPStrategy(**arguments)
    return model, fit_in_ranks(model, ckpt_path, strategy=strategy, max_epochs=epochs, precision=precision)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"sharding_strategy": "SHARD_GRAD_OP", "parallel_devices": [torch.device("hpu")] * 2},
        {"sharding_strategy": "NO_SHARD"},
        {"sharding_strategy": "HYBRID_SHARD", "device_mesh": (1, 2)},
        {"sharding_strategy": "_HYBRID_SHARD_ZERO2", "device_mesh": (1, 2)},
        {"auto_wrap_policy": LAYERS},
        {"auto_wrap_policy": LAYERS, "activation_checkpointing_policy": LAYERS},
        {"cpu_offload": True},
    ],
)
@pytest.mark.filterwarnings("ignore")
@ranks(2, backend="hccl")
def test_trains_as_one_process_on_the_whole_batch(arguments):
    model, trainer = fit(**arguments)
    assert isinstance(trainer.strategy.model, FullyShardedDataParallel)
    if not arguments:  # the weights are divided
        assert 0 < model.sharded < model.gathered.numel()
    torch.testing.assert_close(model.gathered, trained_on_cpu(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("precision", "dtype"), [("bf16-mixed", torch.bfloat16), ("16-mixed", torch.float16)])
@ranks(2, backend="hccl")
def test_mixed_precision(precision, dtype):
    model, trainer = fit(precision=precision)
    assert model.dtypes == {dtype}
    assert isinstance(trainer.precision_plugin, HPUFSDPPrecision)
    by_plugin, _ = fit(precision_plugin=HPUFSDPPrecisionPlugin(precision))
    assert torch.equal(by_plugin.gathered, model.gathered)
    assert 0 < (model.gathered - trained_on_cpu()).abs().mean() < 0.05


@pytest.mark.parametrize("kind", ["full", "sharded"])
@ranks(2, backend="hccl")
def test_training_resumes_from_a_checkpoint(kind, tmp_path):
    whole, _ = fit(epochs=4, state_dict_type=kind)
    _, first = fit(epochs=2, state_dict_type=kind)
    first.save_checkpoint(tmp_path / "half.ckpt")
    assert (tmp_path / "half.ckpt").is_dir() == (kind == "sharded")
    resumed, second = fit(epochs=4, ckpt_path=tmp_path / "half.ckpt", state_dict_type=kind)
    assert second.current_epoch == 4
    assert len(resumed.losses) < len(whole.losses)
    torch.testing.assert_close(resumed.gathered, whole.gathered, rtol=1e-6, atol=1e-6)


@ranks(2, backend="hccl")
def test_a_full_checkpoint_resumes_anywhere(tmp_path):
    model, trainer = fit(auto_wrap_policy=LAYERS)
    trainer.save_checkpoint(tmp_path / "two.ckpt")
    replica = Classifier()
    make_trainer(accelerator="hpu", devices=2).validate(
        replica, loader(2), ckpt_path=tmp_path / "two.ckpt", verbose=False
    )
    assert torch.equal(replica.weights(), model.gathered)
    if dist.get_rank() == 0:
        alone = Classifier()
        cpu = make_trainer(accelerator="cpu", devices=1, max_epochs=3)
        cpu.fit(alone, loader(), loader(2), ckpt_path=tmp_path / "two.ckpt")
        torch.testing.assert_close(alone.weights(), trained_on_cpu(max_epochs=3), rtol=1e-4, atol=1e-5)


def test_only_with_its_precision():
    with pytest.raises(TypeError, match="only work with the `HPUFSDPPrecision` plugin, found"):
        HPUFSDPStrategy(precision_plugin=HPUPrecisionPlugin("bf16-mixed"))
    with pytest.raises(TypeError, match="only work with the `HPUFSDPPrecision` plugin, found"):
        make_trainer(accelerator="hpu", devices=2, strategy="hpu_fsdp", plugins=[HPUPrecisionPlugin("bf16-mixed")])


def test_defaults_are_not_shared():
    first, second = HPUFSDPStrategy(), HPUFSDPStrategy()
    assert first.checkpoint_io is not second.checkpoint_io


def test_unknown_arguments():
    with pytest.raises(roots.MisconfigurationException, match=r"'HALF_SHARD'.: expected one of FULL_SHARD"):
        HPUFSDPStrategy(sharding_strategy="HALF_SHARD")
