"""Memory by phase and part, and what would help. Tensors are fake: sizes can be computed by hand."""

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from openhpu_predict import fake, predict, record
from openhpu_predict.memory import Memory, memory

GIB = 2**30


class Model(nn.Module):
    def __init__(self, again=False):
        super().__init__()
        self.again = again
        self.layers = nn.ModuleList(
            nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 256)) for _ in range(6)
        )

    def forward(self, x):
        for layer in self.layers:
            x = x + (checkpoint(layer, x, use_reentrant=False) if self.again else layer(x))
        return x


def step_of(model):
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)

    def step(x):
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def recorded(again=False):
    with fake():
        step = step_of(Model(again))
        x = torch.ones(8192, 256)
    return record(step, x)


WEIGHTS = 6 * 4 * (2 * 256 * 1024 + 1024 + 256)
KEPT = 8192 * 4 * (1024 + 1024)  # of a layer: the inputs of GELU and of the second product


def test_parts_by_phase():
    found = memory(recorded(), 1e12)
    assert list(found.phases) == ["forward", "backward", "optimizer"]
    for name, parts in found.phases.items():
        assert parts["weights"] == WEIGHTS, name
        assert parts["optimizer"] == pytest.approx(2 * WEIGHTS, rel=0.01), name
        assert parts["inputs"] == 8192 * 256 * 4
    assert found.phases["optimizer"]["gradients"] == WEIGHTS
    assert "gradients" not in found.phases["forward"]
    assert found.phases["forward"]["activations"] == pytest.approx(6 * (KEPT + 8192 * 4 * 256), rel=0.05)
    assert "activations" not in found.phases["optimizer"]


def test_recomputation_saves_what_checkpointing_saves():
    plain = memory(recorded(), 1e12)
    layers, saved = plain.recomputation()
    assert sorted(layers) == [f"Model.layers.{number}" for number in range(6)]
    assert plain.layers["Model.layers.0"] == KEPT
    assert saved == pytest.approx(5 * KEPT, rel=0.2)
    assert plain.peak - saved == pytest.approx(memory(recorded(again=True), 1e12).peak, rel=0.05)


def test_what_is_short_is_named_with_the_layers_that_would_save_it():
    recording = recorded()
    peak = memory(recording, 1e12).peak
    found = memory(recording, peak - KEPT)
    (text,) = (row for row in found.text(peak - KEPT) if row.startswith("does not fit"))
    assert found.short == KEPT
    assert "short by 64.0 MiB at the peak; recomputation of 2 layers (Model.layers." in text
    assert text.endswith("would save 64.0 MiB")


@pytest.mark.parametrize(
    "zero, data, tensor, expected",
    [
        (0, 8, 1, 2 + 2 + 12 + 5),
        (1, 8, 1, 2 + 2 + 1.5 + 5),
        (2, 8, 1, 2 + 0.25 + 1.5 + 5 + 1),
        (3, 8, 1, 0.25 + 0.25 + 1.5 + 5 + 1),
        (1, 2, 4, 0.5 + 0.5 + 1.5 + 5),
    ],
)
def test_memory_divided_by_zero_and_tensor_parallelism(zero, data, tensor, expected):
    phases = {
        "forward": {"weights": 2 * GIB, "activations": 5 * GIB},
        "backward": {"weights": 2 * GIB, "gradients": 2 * GIB, "optimizer": 12 * GIB, "activations": 5 * GIB},
    }
    found = Memory(0, {}, None, phases=phases, largest_layer=GIB)
    assert found.divided(zero, data, tensor) == expected * GIB


def test_plans_name_the_smallest_device_that_it_fits():
    with fake():
        step = step_of(nn.Sequential(*(nn.Linear(2**15, 2**15) for _ in range(8))))
        x = torch.ones(8, 2**15)
    text = str(predict(step, x, device="gaudi3", cards=8))
    rows = [line.split() for line in text.splitlines() if line.startswith("  tensor parallel")]
    assert [row[2] for row in rows] == ["1:", "2:", "4:", "8:"]
    assert rows[0][5] == "none"  # 8 x 4 GiB, four times
    assert all(row[-1] == "gaudi2" for row in rows)
