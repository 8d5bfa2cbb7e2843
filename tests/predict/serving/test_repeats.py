"""Layers that repeat are copied, and cost what they cost when they are run."""

import pytest
import torch
from torch import nn

import openhpu_predict
from openhpu_predict.cost import Parameters, fuse, schedule
from openhpu_predict.memory import memory
from openhpu_predict.recording import Recorder
from openhpu_predict.serving import repeats


class Layer(nn.Module):
    def __init__(self, width, inner, number, window=None):
        super().__init__()
        self.layer_name, self.window = f"layers.{number}", window
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)
        self.register_buffer("cache", torch.zeros(8, width))

    def forward(self, x, residual):
        residual = x if residual is None else x + residual
        self.cache.index_copy_(0, torch.arange(4, device=x.device), residual[:4])
        return self.down(torch.relu(self.up(residual))), residual


class Model(nn.Module):
    def __init__(self, inners, windows):
        super().__init__()
        self.layers = nn.ModuleList(Layer(64, a, i, b) for i, (a, b) in enumerate(zip(inners, windows, strict=True)))
        self.head = nn.Linear(64, 16)

    def forward(self, x):
        residual = None
        for layer in self.layers:
            x, residual = layer(x, residual)
        return self.head(x + residual)


def recorded(inners, windows, copy, rows=32):
    """A call's recording, its result, and how many layers were copied."""
    recorder = Recorder(None)
    found = repeats.Repeats(recorder)
    with openhpu_predict.fake():
        model = Model(inners, windows)
        x = torch.empty(rows, 64)
    if copy:
        repeats.of(model, lambda: found)
    with openhpu_predict.fake(), recorder.watching() as recording, torch.no_grad():
        result = model(x)
        recorder.end_step()
    return recording, result, found.copied


def facts(recording):
    device = openhpu_predict.load("gaudi2")
    nodes = [(one.op, sorted(one.reads.values()), sorted(one.writes.values()), one.products) for one in recording.nodes]
    timeline = schedule(recording.nodes, fuse(recording.nodes, recording.blocks), device, Parameters.fitted())
    used = memory(recording, device.hbm_bytes)
    made = sum(size for name, size in used.parts.items() if name not in ("weights", "inputs"))
    return nodes, timeline.seconds, made


def test_copied_layers_have_the_same_operators_time_and_memory():
    same = [128] * 6
    run, result, copied = recorded(same, [None] * 6, False)
    copy, again, number = recorded(same, [None] * 6, True)
    assert copied == 0
    assert number == 4  # the first has no residual
    assert facts(copy) == facts(run)
    assert again.shape == result.shape


@pytest.mark.parametrize(
    ("inners", "windows", "number"),
    [
        ([128, 128, 256, 128, 256], [None] * 5, 2),  # other sizes
        ([128] * 5, [None, 8, None, 8, None], 2),  # another attribute
    ],
)
def test_layers_that_differ_are_run(inners, windows, number):
    run, _, _ = recorded(inners, windows, False)
    copy, _, copied = recorded(inners, windows, True)
    assert copied == number
    assert facts(copy) == facts(run)


def test_without_a_recording_layers_run():
    model = Model([8, 8], [None, None])
    expected = model(torch.ones(4, 64))
    repeats.of(model, lambda: None)
    assert torch.equal(model(torch.ones(4, 64)), expected)


def test_names_and_numbers_of_layers_do_not_count():
    layers = Model([8, 8], [None, None]).layers
    assert repeats.alike(layers[0]) == repeats.alike(layers[1])
    layers[1].window = 4
    assert repeats.alike(layers[0]) != repeats.alike(layers[1])
