"""Trainer with DeepSpeed: arguments, configurations, precisions, optimizers, checkpoints."""

import json

import pytest
import torch
import torch.distributed as dist

from habana_frameworks.torch.hpex.experimental import transformer_engine
from lightning_habana import (
    HPUDDPStrategy,
    HPUDeepSpeedPrecisionPlugin,
    HPUDeepSpeedStrategy,
    HPUPrecisionPlugin,
    roots,
)
from tests.deepspeed.training import deepspeed_alone
from tests.distributed.ranks import ranks
from tests.lightning.support import Classifier, fit_in_ranks, loader, make_trainer, trained_on_cpu, whole_weights

ZERO = {"stage": 2, "reduce_bucket_size": 1000, "allgather_bucket_size": 1000}
ADAM = {"type": "AdamW", "params": {"lr": 0.05, "torch_adam": True}}


class Model(Classifier):
    """Keeps its whole weights when training ends."""

    def on_train_end(self):
        self.whole = whole_weights(self)


def fit(strategy, model=None, epochs=2, **arguments):
    model = model or Model()
    return model, fit_in_ranks(model, strategy=strategy, max_epochs=epochs, **arguments)


ARGUMENTS = {
    "defaults": {},
    "stage 0": {"stage": 0},
    "no zero": {"zero_optimization": False},
    "stage 1": {"stage": 1, "reduce_bucket_size": 100, "allgather_bucket_size": 100},
    "stage 2": {"stage": 2, "overlap_comm": False, "contiguous_gradients": False, "reduce_scatter": False},
    "stage 2, offload": {"stage": 2, "offload_optimizer": True, "pin_memory": True},
    "stage 3": {"stage": 3, "sub_group_size": 100, "logging_batch_size_per_gpu": 4},
    "stage 3, offload": {"stage": 3, "offload_optimizer": True, "offload_parameters": True},
    "config": {"config": {"zero_optimization": {"stage": 2}, "zero_allow_untested_optimizer": True}},
}


@pytest.mark.parametrize("arguments", ARGUMENTS)
@ranks(2, backend="hccl", around=deepspeed_alone)
def test_trains_as_one_process_on_the_whole_batch(arguments):
    model, trainer = fit(HPUDeepSpeedStrategy(parallel_devices=2, **ARGUMENTS[arguments]))
    assert trainer.world_size == 2
    assert isinstance(trainer.strategy, HPUDDPStrategy)
    torch.testing.assert_close(model.whole, trained_on_cpu(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("by", ["path", "text", "variable"])
@ranks(2, backend="hccl")
def test_configuration_in_a_file(by, tmp_path):
    path = tmp_path / "deepspeed.json"
    if dist.get_rank() == 0:
        path.write_text(json.dumps({"zero_optimization": ZERO, "gradient_clipping": 0.5}))
    dist.barrier()
    with deepspeed_alone(), pytest.MonkeyPatch.context() as patch:
        if by == "variable":
            patch.setenv("PL_DEEPSPEED_CONFIG_PATH", str(path))
        strategy = HPUDeepSpeedStrategy(config={"path": path, "text": str(path)}.get(by))
        _, trainer = fit(strategy, epochs=1, gradient_clip_val=9.0, accumulate_grad_batches=2)
        engine = trainer.strategy.config
        assert engine["gradient_clipping"] == 0.5
        assert engine["gradient_accumulation_steps"] == 2
        assert engine["train_micro_batch_size_per_gpu"] == 4


@ranks(2, backend="hccl", around=deepspeed_alone)
def test_accumulation_and_clipping():
    options = {"accumulate_grad_batches": 3, "gradient_clip_val": 0.1}
    model, trainer = fit(HPUDeepSpeedStrategy(stage=1), **options)
    assert trainer.global_step == 4
    torch.testing.assert_close(model.whole, trained_on_cpu(**options), rtol=1e-4, atol=1e-5)


PRECISIONS = {
    "32-true": torch.float32,
    "bf16": torch.bfloat16,
    "bf16-mixed": torch.bfloat16,
    "16-mixed": torch.float16,
    "bf16-true": torch.bfloat16,
    "16-true": torch.float16,
}


@pytest.mark.parametrize("precision", PRECISIONS)
@ranks(2, backend="hccl", around=deepspeed_alone)
def test_precisions(precision):
    plugin = HPUDeepSpeedPrecisionPlugin(precision)
    # In float16 the loss itself is, which a scale of 65,536 would be too much for.
    model, trainer = fit(HPUDeepSpeedStrategy(initial_scale_power=8), plugins=[plugin])
    assert model.dtypes == {PRECISIONS[precision]}
    assert trainer.precision_plugin is plugin
    assert trainer.strategy.config.get("bf16", {}).get("enabled", False) == (precision in ("bf16-mixed", "bf16-true"))
    assert trainer.strategy.config.get("fp16", {}).get("enabled", False) == precision.startswith("16")
    assert (model.whole - trained_on_cpu()).abs().mean() < 0.05


@pytest.mark.parametrize("stage", [1, 2])
@ranks(2, backend="hccl", around=deepspeed_alone)
def test_fp8(stage):
    """Layers of transformer_engine, whose weights are float32's; their numbers in fp8 are not."""
    plugin = HPUDeepSpeedPrecisionPlugin("fp8")
    model = Model()
    model.layers = plugin.convert_modules(model.layers, replace_layers=True)
    model, trainer = fit(HPUDeepSpeedStrategy(**ZERO | {"stage": stage}), model, plugins=[plugin])
    layers = [module for module in trainer.model.modules() if isinstance(module, transformer_engine.Linear)]
    assert len(layers) == 2
    assert all(scale.history for layer in layers for scale in layer.fp8_scales.values())
    assert 0 < (model.whole - trained_on_cpu()).abs().mean() < 0.05


@ranks(2, backend="hccl", around=deepspeed_alone)
def test_loss_scaling():
    strategy = HPUDeepSpeedStrategy(initial_scale_power=4, loss_scale_window=2, hysteresis=1, min_loss_scale=2)
    _, trainer = fit(strategy, precision="16-mixed", epochs=1)
    scaler = trainer.optimizers[0].loss_scaler
    assert (scaler.scale_window, scaler.min_scale, scaler.delayed_shift) == (2, 2, 1)
    assert scaler.cur_scale > 2**4  # there was no overflow
    _, trainer = fit(HPUDeepSpeedStrategy(loss_scale=8), precision="16-mixed", epochs=1)
    assert trainer.optimizers[0].loss_scaler.cur_scale == 8


class Chooses(Model):
    """Returns an optimizer, a scheduler with it, or nothing."""

    def __init__(self, optimizer=True, scheduler=True):
        super().__init__()
        self.chosen = optimizer, scheduler

    def configure_optimizers(self):
        if not self.chosen[0]:
            return None
        optimizer = torch.optim.SGD(self.parameters(), lr=0.5)
        schedulers = [torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)] if self.chosen[1] else []
        return [optimizer], schedulers


WARMUP = {
    "type": "WarmupLR",
    "params": {"warmup_min_lr": 0.0, "warmup_max_lr": 0.3, "warmup_num_steps": 3, "warmup_type": "linear"},
}


@pytest.mark.parametrize(
    ("optimizer", "scheduler", "lr"),
    [
        (True, True, 0.25),  # the module's, a step an epoch
        (True, False, 0.3),  # the module's optimizer, the configuration's scheduler, which ends at 0.3
        (False, False, 0.3),  # both of the configuration
    ],
)
@ranks(2, backend="hccl", around=deepspeed_alone)
def test_the_module_is_preferred(optimizer, scheduler, lr):
    config = {"zero_optimization": ZERO, "optimizer": ADAM, "scheduler": WARMUP}
    config["zero_allow_untested_optimizer"] = True
    _, trainer = fit(HPUDeepSpeedStrategy(config=config), Chooses(optimizer, scheduler), epochs=1)
    engine = trainer.optimizers[0].optimizer
    assert type(engine) is (torch.optim.SGD if optimizer else torch.optim.AdamW)
    assert len(trainer.lr_scheduler_configs) == 1
    assert trainer.lr_scheduler_configs[0].interval == ("epoch" if scheduler else "step")
    assert engine.param_groups[0]["lr"] == pytest.approx(lr)


@ranks(2, backend="hccl")
def test_without_any_optimizer():
    with deepspeed_alone(), pytest.raises(roots.MisconfigurationException, match="there is none: return it from"):
        fit(HPUDeepSpeedStrategy(), Chooses(False))


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
@ranks(2, backend="hccl", around=deepspeed_alone)
def test_training_resumes(stage, tmp_path):
    whole, _ = fit(HPUDeepSpeedStrategy(stage=stage), epochs=4)
    _, first = fit(HPUDeepSpeedStrategy(stage=stage), epochs=2)
    first.save_checkpoint(tmp_path / "half.ckpt")
    assert (tmp_path / "half.ckpt" / "checkpoint").is_dir()
    resumed, second = fit(HPUDeepSpeedStrategy(stage=stage), epochs=4, ckpt_path=tmp_path / "half.ckpt")
    assert second.current_epoch == 4
    assert len(resumed.losses) < len(whole.losses)
    torch.testing.assert_close(resumed.whole, whole.whole, rtol=1e-6, atol=1e-6)


def loss_by(strategy, checkpoint, **arguments):
    """The loss of a checkpoint by another strategy."""
    trainer = make_trainer(accelerator="hpu", devices=2, strategy=strategy, use_distributed_sampler=False)
    return trainer.test(Model(**arguments), loader(2), ckpt_path=checkpoint, verbose=False)[0]["test_loss"]


@pytest.mark.parametrize("stage", [1, 2, 3])
@ranks(2, backend="hccl")
def test_a_checkpoint_is_put_together(stage, tmp_path):
    with deepspeed_alone() as deepspeed:
        model, trainer = fit(HPUDeepSpeedStrategy(stage=stage), epochs=1)
        trainer.save_checkpoint(tmp_path / "two.ckpt")
        put_together = deepspeed.utils.zero_to_fp32.get_fp32_state_dict_from_zero_checkpoint
        weights = put_together(str(tmp_path / "two.ckpt"), "checkpoint")
        assert torch.equal(torch.cat([value.flatten() for value in weights.values()]), model.whole)
        # A file with whole weights serves as well.
        own = tmp_path / f"{dist.get_rank()}.ckpt"
        torch.save({"state_dict": weights, "pytorch-lightning_version": "2.5.0"}, own)
        expected = trainer.test(model, loader(2), verbose=False)[0]["test_loss"]
        found = loss_by(HPUDeepSpeedStrategy(stage=3, load_full_weights=True), own)
        assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("stage", [0, 2, 3])
@ranks(2, backend="hccl", around=deepspeed_alone)
def test_evaluation_of_a_checkpoint(stage, tmp_path):
    model, trainer = fit(HPUDeepSpeedStrategy(stage=stage), epochs=1)
    trainer.save_checkpoint(tmp_path / "two.ckpt")
    after = trainer.test(model, loader(2), verbose=False)[0]["test_loss"]
    for strategy in (HPUDeepSpeedStrategy(stage=stage), HPUDeepSpeedStrategy(dtype=torch.float)):
        assert loss_by(strategy, tmp_path / "two.ckpt", lr=1.0) == pytest.approx(after, rel=1e-5)


@ranks(2, backend="hccl")
def test_activation_checkpointing_is_configured():
    with deepspeed_alone() as deepspeed:
        kept = []

        class Watched(Model):
            def on_train_start(self):
                module = deepspeed.runtime.activation_checkpointing.checkpointing
                names = ("PARTITION_ACTIVATIONS", "CPU_CHECKPOINT", "SYNCHRONIZE", "CONTIGUOUS_CHECKPOINTING")
                kept.extend(getattr(module, name) for name in names)

        options = {"partition_activations": True, "cpu_checkpointing": True, "synchronize_checkpoint_boundary": True}
        fit(HPUDeepSpeedStrategy(**options), Watched())
        assert kept == [True, True, True, False]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"stage": 4}, "stage=4.: expected 0, 1, 2 or 3"),
        ({"config": "/nowhere.json"}, "/nowhere.json: not a JSON file"),
        ({"config": [1]}, "not a JSON file"),
        ({"config": {"autotuning": {"enabled": True}}}, "autotuning starts jobs"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(roots.MisconfigurationException, match=message):
        HPUDeepSpeedStrategy(**arguments)


def test_unknown_arguments():
    with pytest.raises(TypeError, match=r"unexpected argument 'tensor_paralel'.*Did you mean 'tensor_parallel'"):
        HPUDeepSpeedStrategy(tensor_paralel={"tp_size": 2})


def test_without_deepspeed(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(roots.MisconfigurationException, match="needs DeepSpeed, which is not installed: `DS_BUILD"):
        HPUDeepSpeedStrategy()


def test_wrong_precisions():
    with pytest.raises(TypeError, match="only work with `HPUDeepSpeedPrecisionPlugin` or Lightning's"):
        HPUDeepSpeedStrategy(precision_plugin=HPUPrecisionPlugin("bf16-mixed"))
    with pytest.raises(ValueError, match=r"must be one of: .'32', '32-true', 'bf16'"):
        HPUDeepSpeedPrecisionPlugin("64-true")


CONTRADICTIONS = {
    "accumulation": ({"config": {"gradient_accumulation_steps": 2}}, "Do not set `gradient_accumulation_steps`"),
    "batches": ({"config": {"train_batch_size": 24, "train_micro_batch_size_per_gpu": 8}}, "is 16: use 3 devices, or"),
    "nvme": ({"stage": 3, "offload_optimizer": True, "offload_optimizer_device": "nvme"}, "nvme_path='/local_nvme'"),
    "optimizer": ({"config": {"optimizer": {"type": "AdmW"}}}, "optimizer.type is 'AdmW': expected .* mean 'AdamW'"),
    "optimizer without a type": ({"config": {"optimizer": "AdamW"}}, "optimizer is 'AdamW': expected an object with"),
    "scheduler": ({"config": {"scheduler": {"type": "WarmupRL"}}}, "scheduler.type is 'WarmupRL'.* mean 'WarmupLR'"),
}


@pytest.mark.parametrize("what", CONTRADICTIONS)
@ranks(2, backend="hccl")
def test_contradictions(what):
    arguments, message = CONTRADICTIONS[what]
    with deepspeed_alone(), pytest.raises(roots.MisconfigurationException, match=message):
        fit(HPUDeepSpeedStrategy(**arguments))


def test_arguments_for_files():
    """Each is where DeepSpeed looks for it."""
    arguments = {
        "stage": 3,
        "offload_optimizer": True,
        "offload_parameters": True,
        "offload_optimizer_device": "nvme",
        "offload_params_device": "nvme",
        "remote_device": "nvme",
        "nvme_path": "/a",
        "params_buffer_count": 6,
        "params_buffer_size": 7,
        "max_in_cpu": 8,
        "optimizer_buffer_count": 9,
        "pin_memory": True,
        "block_size": 4096,
        "queue_depth": 10,
        "single_submit": True,
        "overlap_events": False,
        "thread_count": 2,
    }
    strategy = HPUDeepSpeedStrategy(**arguments)
    zero = strategy.config["zero_optimization"]
    place = {"device": "nvme", "nvme_path": "/a", "pin_memory": True}
    assert zero["offload_param"] == place | {"buffer_count": 6, "buffer_size": 7, "max_in_cpu": 8}
    assert zero["offload_optimizer"] == place | {"buffer_count": 9}
    assert strategy.config["aio"] == {
        "block_size": 4096,
        "queue_depth": 10,
        "single_submit": True,
        "overlap_events": False,
        "thread_count": 2,
    }
    assert strategy.remote_device == "nvme"


@ranks(2, backend="hccl", around=deepspeed_alone)
def test_what_is_no_checkpoint(tmp_path):
    with pytest.raises(FileNotFoundError, match="not a valid DeepSpeed checkpoint"):
        fit(HPUDeepSpeedStrategy(), ckpt_path=tmp_path)
    _, trainer = fit(HPUDeepSpeedStrategy(), epochs=1)
    with pytest.raises(TypeError, match="storage_options"):
        trainer.strategy.save_checkpoint({}, tmp_path / "x", storage_options=1)


@ranks(2, backend="hccl", around=deepspeed_alone)
def test_resuming_with_another_stage(tmp_path):
    whole, _ = fit(HPUDeepSpeedStrategy(stage=1))
    _, trainer = fit(HPUDeepSpeedStrategy(stage=1), epochs=1)
    trainer.save_checkpoint(tmp_path / "half.ckpt")
    resumed, _ = fit(HPUDeepSpeedStrategy(stage=2), ckpt_path=tmp_path / "half.ckpt")
    torch.testing.assert_close(resumed.whole, whole.whole, rtol=1e-6, atol=1e-6)
    with pytest.raises(roots.MisconfigurationException, match="stage 0 to 2 and can't go on with stage 3"):
        fit(HPUDeepSpeedStrategy(stage=3), ckpt_path=tmp_path / "half.ckpt")
