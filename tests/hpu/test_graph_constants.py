"""Which inputs of a captured graph count as constants, and until when: any write to a weight ends it."""

import copy

import pytest
import torch
from torch import nn

from openhpu.interface import inference
from tests.hpu.support import capture


def _model():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 4)).to("hpu").eval()


def _constants(graph):
    return graph.describe()["constants"]


def _inference(model, x):
    with torch.no_grad():
        return capture(lambda: model(x))


@pytest.fixture
def x():
    return torch.randn(2, 3, 8, 8, device="hpu")


def _halve(model, x):
    model[3].weight.mul_(0.5)
    return model(x)


@pytest.mark.parametrize(
    ("mode", "work", "count"),
    [
        # Weight and bias of three layers; not the input, nor the running statistics.
        (torch.no_grad, nn.Module.__call__, 6),
        (torch.inference_mode, nn.Module.__call__, 6),
        (torch.no_grad, _halve, 5),
        (torch.enable_grad, nn.Module.__call__, 0),
    ],
)
def test_parameters_that_the_graph_does_not_write_are_constants_of_inference(x, mode, work, count):
    model = _model()
    with mode():
        graph, _ = capture(lambda: work(model, x))
    assert _constants(graph) == count
    x.zero_()
    graph.replay()
    assert _constants(graph) == count


def test_a_weight_that_is_given_with_each_replay_is_none(x):
    model, graph = nn.Linear(8, 8).to("hpu"), torch.hpu.HPUGraph()
    with torch.no_grad():
        graph.capture_begin()
        graph.mark_user_inputs([model.weight])
        model(x)
        graph.capture_end()
    assert _constants(graph) == 1


def test_weights_beyond_the_limit_stay_inputs():
    weight = nn.Parameter(torch.zeros((64 << 20) // 4 + 1, device="hpu"))
    with torch.no_grad():
        graph, _ = capture(lambda: weight + 1)
    assert _constants(graph) == 0


def _optimizer(model):
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    torch.optim.AdamW(model.parameters()).step()


# Writes to weights, without gradients.
WRITES = {
    "in place": lambda model: model[0].weight.mul_(2),
    "view": lambda model: model[3].weight[0, :2].fill_(5),
    "fill": lambda model: nn.init.normal_(model[3].weight),
    "from the host": lambda model: model[3].weight.copy_(torch.ones(4, 144)),
    "out": lambda model: torch.add(torch.ones(4, device="hpu"), 1, out=model[3].bias.detach()),
    "load": lambda model: model.load_state_dict({n: torch.ones_like(value) for n, value in model.state_dict().items()}),
    "data": lambda model: model[0].bias.data.add_(1),
    "optimizer": _optimizer,
}


@pytest.mark.parametrize("write", [*WRITES, "replay"])
@torch.no_grad()
def test_after_any_write_weights_are_inputs_again(x, write):
    model = _model()
    step, _ = capture(lambda: model[3].weight.mul_(0.5))
    graph, result = _inference(model, x)
    assert _constants(graph) == 6
    WRITES.get(write, lambda model: step.replay())(model)  # or what writes is a replay of another graph
    assert _constants(graph) == 0
    graph.replay()
    torch.testing.assert_close(result, model(x))
    assert _constants(graph) == 0


def test_reading_a_weight_is_no_write(x):
    model = _model()
    graph, _ = _inference(model, x)
    with torch.no_grad():
        model(x)
        copy.deepcopy(model)
        model[0].weight.sum().item()
        torch.add(model[3].bias, 1, out=torch.empty(4, device="hpu"))
    assert _constants(graph) == 6


def test_a_wrapped_module_has_its_buffers_among_them(x):
    model = _model()
    wrapped = torch.hpu.wrap_in_hpu_graph(copy.deepcopy(model))
    graphs = []
    with torch.no_grad(), pytest.MonkeyPatch.context() as patch:
        end = torch.hpu.HPUGraph.capture_end

        def noted(graph, *args):
            graphs.append(graph)
            return end(graph, *args)

        patch.setattr(torch.hpu.HPUGraph, "capture_end", noted)
        torch.testing.assert_close(wrapped(x), model(x))
    assert _constants(graphs[0]) == 8


@pytest.fixture
def marked():
    """`marked(model)`: the model, frozen, its parameters and buffers marked as constants."""

    def mark(model):
        inference.mark_params_as_const(model.requires_grad_(False))
        return model

    yield mark
    inference.hpu_teardown_inference_env()


def test_marked_tensors_are_constants(x, marked):
    model = _model()
    frozen, _ = _inference(model.requires_grad_(False), x)
    assert _constants(frozen) == 0
    graph, _ = _inference(marked(model), x)
    assert _constants(graph) == 8  # the running statistics, too
    other, _ = _inference(model, x[:1])
    assert _constants(other) == 8


def _expected(model, x):
    plain = _model().cpu()
    plain.load_state_dict(model.state_dict())
    with torch.no_grad():
        return plain(x.cpu())


@pytest.mark.parametrize("way", ["captured", "wrapped", "outside of graphs"])
@pytest.mark.parametrize("write", [*WRITES][:6])
def test_a_write_to_a_marked_tensor_is_seen(x, marked, write, way):
    model = marked(_model())
    if way == "captured":
        graph, out = _inference(model, x)
    elif way == "wrapped":
        torch.hpu.wrap_in_hpu_graph(model)
    with torch.no_grad():
        for change in (lambda model: None, WRITES[write], WRITES["view"]):
            change(model)
            for _ in range(3):
                if way == "captured":
                    graph.replay()
                    y = out
                else:
                    y = model(x)
                torch.testing.assert_close(y.cpu(), _expected(model, x), rtol=1e-4, atol=1e-5)
