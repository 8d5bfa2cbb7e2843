"""Pipelines: two stages on two ranks learn what DeepSpeed's do on the CPU."""

import pytest
import torch

from tests.deepspeed import training
from tests.deepspeed.test_zero import agree


class Start(torch.nn.Module):
    """Words and positions."""

    def __init__(self, net):
        super().__init__()
        self.token = net.token
        self.position = net.position

    def forward(self, numbers):
        return self.token(numbers) + self.position(torch.arange(numbers.shape[1], device=numbers.device))


def entropy(scores, following):
    return torch.nn.functional.cross_entropy(scores.float().flatten(0, 1), following.flatten())


def piped(settings, folder=None, stages=2, number=4):
    """Losses of batches; with a folder also those after a checkpoint, and of an engine that resumed it."""
    with training.deepspeed_alone() as deepspeed:
        engines = []
        for seed in (1, 2):
            net = training.model(seed=seed)
            layers = [Start(net), *net.blocks, net.norm, net.head]
            how = {"num_stages": stages, "loss_fn": entropy, "partition_method": "uniform"}
            whole = deepspeed.pipe.PipelineModule(layers=layers, **how)
            made = deepspeed.initialize(model=whole, model_parameters=list(whole.parameters()), config=settings)
            engines.append(made[0])
            if folder is None:
                break
        data = iter([batch for _ in range(8) for batch in list(training.batches(8, seed=3))])
        losses = [engines[0].train_batch(data).item() for _ in range(number)]
        if folder is None:
            return losses
        engines[0].save_checkpoint(folder, tag="here")
        engines[1].load_checkpoint(folder, tag="here")
        rest = []
        for engine in engines:
            data = iter([batch for _ in range(8) for batch in list(training.batches(8, seed=4))])
            rest.append([engine.train_batch(data).item() for _ in range(2)])
        return losses, rest


def settings(stage=0, precision="fp32"):
    made = training.config(stage, precision, gradient_accumulation_steps=4)
    made["optimizer"]["params"]["torch_adam"] = True
    return made


@pytest.mark.parametrize(("stage", "precision"), [(0, "fp32"), (1, "fp32"), (0, "bf16"), (1, "bf16")])
def test_two_stages(stage, precision):
    found, expected = (call(piped, settings(stage, precision)) for call in (training.on_hpu, training.on_cpu))
    agree(found, expected, precision)


def test_resumed(tmp_path):
    for _, (first, second) in training.on_hpu(piped, settings(), str(tmp_path)):
        assert second == pytest.approx(first, rel=1e-6)
