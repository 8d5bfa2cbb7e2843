"""Trainer's test and predict through `deepspeed.init_inference`."""

import pytest
import torch
import torch.distributed as dist
from torch import nn

from lightning_habana import HPUDeepSpeedPrecisionPlugin, HPUDeepSpeedStrategy, roots
from tests.deepspeed.training import deepspeed_alone
from tests.distributed.ranks import ranks
from tests.lightning.support import FEATURES, Classifier, loader, make_trainer


class Pair(nn.Module):
    """Two layers that can be parted between them."""

    def __init__(self):
        super().__init__()
        self.up = nn.Linear(FEATURES, 256)
        self.down = nn.Linear(256, FEATURES)

    def forward(self, x):
        return x + self.down(self.up(x).relu())


class Deep(Classifier):
    """Predicts with scores, and keeps the types of its layers."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.pairs = nn.Sequential(Pair(), Pair())

    def predict_step(self, batch, batch_idx):
        scores = self.layers(self.pairs(batch[0]))
        self.dtypes.add(scores.dtype)
        return scores.float()


def predicted(strategy, data=None, model=None, **arguments):
    arguments = {"use_distributed_sampler": False} | arguments
    trainer = make_trainer(accelerator="hpu", devices=dist.get_world_size(), strategy=strategy, **arguments)
    model = model or Deep()
    found = trainer.predict(model, data or loader(2))
    return torch.cat(found).cpu(), model, trainer


def expected(rows=slice(None)):
    model = Deep()
    with torch.no_grad():
        return torch.cat([model.layers(model.pairs(images)) for images, _ in loader(2)])[rows]


WAYS = {
    "arguments": {"dtype": torch.float, "replace_with_kernel_inject": False},
    "configuration": {"config": {"dtype": torch.float, "enable_cuda_graph": False, "gradient_clipping": 1.0}},
    "both": {"config": {"enable_cuda_graph": False, "max_out_tokens": 64}, "dtype": torch.float},
    "no dtype": {"replace_method": "auto"},
}


@pytest.mark.parametrize("way", WAYS)
@ranks(2, backend="hccl")
def test_ways_to_say_it(way):
    with deepspeed_alone() as deepspeed:
        found, _, trainer = predicted(HPUDeepSpeedStrategy(parallel_devices=2, **WAYS[way]))
        assert type(trainer.strategy.model) is deepspeed.InferenceEngine
        torch.testing.assert_close(found, expected(), rtol=1e-5, atol=1e-5)


def parted(size):
    policy = {Pair: (".down",)}
    return HPUDeepSpeedStrategy(tensor_parallel={"tp_size": size}, injection_policy=policy, dtype=torch.float)


@pytest.mark.parametrize("size", [1, 2])
@ranks(2, backend="hccl", around=deepspeed_alone)
def test_parted_layers(size):
    found, model, _ = predicted(parted(size))
    assert {layer.weight.shape for layer in (model.pairs[0].up, model.pairs[1].up)} == {(256 // size, FEATURES)}
    torch.testing.assert_close(found, expected(), rtol=1e-5, atol=1e-5)


@ranks(4, backend="hccl", around=deepspeed_alone)
def test_two_models_of_two_devices():
    """Devices that share a model see the same samples, others the others."""
    found, model, _ = predicted(parted(2), use_distributed_sampler=True)
    assert model.pairs[0].up.weight.shape == (128, FEATURES)
    replica = dist.get_rank() // 2
    torch.testing.assert_close(found, expected(slice(replica, None, 2)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("precision", "dtype"), [("bf16-mixed", torch.bfloat16), ("16-mixed", torch.float16)])
@ranks(2, backend="hccl", around=deepspeed_alone)
def test_precisions(precision, dtype):
    # Weights in the precision's dtype, or in the one that is asked for, whose inputs are cast to it.
    found, model, _ = predicted(HPUDeepSpeedStrategy(replace_method="auto"), precision=precision)
    assert next(model.parameters()).dtype == dtype
    assert model.dtypes == {dtype}
    torch.testing.assert_close(found, expected(), rtol=0.05, atol=0.05)
    for plugin in (HPUDeepSpeedPrecisionPlugin, roots.pytorch("plugins").DeepSpeedPrecisionPlugin):
        found, model, _ = predicted(HPUDeepSpeedStrategy(dtype=torch.float), plugins=[plugin(precision)])
        assert next(model.parameters()).dtype == torch.float
        torch.testing.assert_close(found, expected(), rtol=0.05, atol=0.05)


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
@ranks(2, backend="hccl")
def test_without_init_inference(stage):
    with deepspeed_alone() as deepspeed:
        found, _, trainer = predicted(HPUDeepSpeedStrategy(stage=stage))
        assert type(trainer.strategy.model) is deepspeed.DeepSpeedEngine
        torch.testing.assert_close(found, expected(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tensor_parallel": {"tp_size": 3}}, "does not divide the 2 devices"),
        ({"config": {"dtype": torch.half}, "dtype": torch.float}, "torch.float32 as an argument and torch.float16 in"),
    ],
)
@ranks(2, backend="hccl")
def test_wrong_arguments(arguments, message):
    with deepspeed_alone(), pytest.raises(roots.MisconfigurationException, match=message):
        predicted(HPUDeepSpeedStrategy(**arguments))


@ranks(2, backend="hccl", around=deepspeed_alone)
def test_weights_that_training_divided():
    model = Deep()
    strategy = HPUDeepSpeedStrategy(stage=3)
    trainer = make_trainer(accelerator="hpu", devices=2, strategy=strategy, max_epochs=1)
    trainer.fit(model, loader(2))
    with pytest.raises(roots.MisconfigurationException, match="still divided among the devices"):
        predicted(HPUDeepSpeedStrategy(dtype=torch.float), model=model)
