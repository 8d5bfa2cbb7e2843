"""Traced and scripted modules and functions: their operators run as captured graphs."""

import copy
import warnings
from contextlib import contextmanager, nullcontext

import pytest
import torch
from torch import nn

from openhpu import _C

from .conftest import LAZY
from .support import capture, in_threads, outcome

# Of all of torch.jit; from 2.15 on another one.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:.torch.jit.*deprecated:FutureWarning")
# PyTorch runs a graph once or twice to profile it before it optimises it.
PROFILING = 3


def _model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4)).eval()


def _warm(call, *args):
    for _ in range(PROFILING):
        call(*args)


@pytest.mark.parametrize("make", [lambda m, x: torch.jit.trace(m, x), lambda m, x: torch.jit.script(m)])
@torch.no_grad()
def test_a_module_is_one_replay(make, counted):
    model = _model()
    reference = copy.deepcopy(model)
    x = torch.randn(5, 8)
    scripted = make(model.to("hpu"), x.to("hpu"))
    _warm(scripted, x.to("hpu"))
    for k in (1, -2):
        given = (x * k).to("hpu")
        with counted(graph_replays=not LAZY, graphs_captured=0, ops_submitted=0):
            result = scripted(given)
        torch.testing.assert_close(result.cpu(), reference(x * k))


@torch.no_grad()
def test_other_sizes_are_captured_once_more(counted):
    scripted = torch.jit.trace(_model().to("hpu"), torch.randn(5, 8, device="hpu"))
    _warm(scripted, torch.randn(5, 8, device="hpu"))
    captured = []
    for rows in (7, 7, 5, 7):
        with counted() as counters:
            result = scripted(torch.ones(rows, 8, device="hpu"))
        captured.append(counters["graphs_captured"])
        torch.testing.assert_close(result.cpu(), _model()(torch.ones(rows, 8)))
    assert captured == [not LAZY, 0, 0, 0]


def test_a_function_that_writes_into_its_argument(counted):
    def work(x: torch.Tensor, y: torch.Tensor):
        x.add_(y)
        x[0].mul_(2)
        return x * 3

    scripted = torch.jit.script(work)
    x, y = torch.ones(4, device="hpu"), torch.arange(4.0, device="hpu")
    expected_x, expected_y = torch.ones(4), torch.arange(4.0)
    replays = 0
    for _ in range(6):
        with counted() as counters:
            result = scripted(x, y)
        replays += counters["graph_replays"]
        expected = work(expected_x, expected_y)
        assert torch.equal(result.cpu(), expected)
        assert torch.equal(x.cpu(), expected_x)
    assert (replays >= 2) == (not LAZY)


@contextmanager
def _double_by_default():
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@torch.library.custom_op("openhpu_script_tests::seeded", mutates_args=())
def seeded(x: torch.Tensor) -> torch.Tensor:
    return x + torch.initial_seed()


@pytest.mark.parametrize(
    ("statement", "later"),
    [
        ("x.t_()", nullcontext),
        ("x.swapaxes_(0, 1)", nullcontext),
        ("x.squeeze_(0)", nullcontext),
        ("x.as_strided_([2], [1], 1)", nullcontext),
        ("x.resize_([2])", nullcontext),
        ("x.resize_([1, 9])[:, 3:] = 0", nullcontext),
        ("x.set_(y)", nullcontext),
        ("x.set_(o)", nullcontext),
        ("torch.add(x, 1, out=o)", nullcontext),
        ("y = x.t() @ x @ x.t()", lambda: torch.autocast("hpu", torch.bfloat16)),
        ("y = y + torch.zeros(1, device=x.device)", _double_by_default),
        ("y = y.exp() / torch.full_like(x, s)", nullcontext),
        ("y = x.mul_(y).neg()", nullcontext),
        ("warnings.warn('seen')", nullcontext),
        ("torch.manual_seed(3)", nullcontext),
        ("y = torch.ops.openhpu_script_tests.seeded(y).exp()", nullcontext),
    ],
)
def test_each_call_does_what_eager_does(statement, later):
    source = f"def work(x, o, s: float):\n y = x + 1\n {statement}\n return x * 2, y * 3, torch.rand_like(x)\n"
    scripted = torch.jit.CompilationUnit(source).work
    names = dict(globals())
    exec(source, names)
    for k in range(7):
        outcomes = []
        for function in (names["work"], scripted):
            torch.manual_seed(k)
            x = torch.arange(3.0, device="hpu").reshape(1, 3) + k
            arguments = (x._neg_view() if k in (1, 2) else x, torch.empty(0, device="hpu"), 0.0 if k < 5 else -0.0)
            with warnings.catch_warnings(record=True) as seen, later() if k > 4 else nullcontext():
                warnings.simplefilter("always")
                outcomes.append((outcome(function, arguments), len(seen)))
        torch.testing.assert_close(outcomes[1], outcomes[0], rtol=0, atol=0, check_stride=True)


def test_an_error_comes_after_the_writes_before_it():
    work = torch.jit.CompilationUnit("def work(x):\n x.add_(1)\n return x @ x\n").work
    _warm(work, torch.ones(2, 2, device="hpu"))
    x = torch.zeros(2, 3, device="hpu")
    for k in range(1, 4):
        with pytest.raises(RuntimeError, match="cannot be multiplied"):
            work(x)
        assert x.unique().tolist() == [k]


def test_while_another_thread_captures_it_runs_eagerly(counted):
    x = torch.ones(3, device="hpu")
    y = x[:2]
    scripted = torch.jit.trace(lambda x: (x + 1) * 2, x, check_trace=False)
    _warm(scripted, x)
    with torch.hpu.graph(torch.hpu.HPUGraph()), counted(graphs_captured=0):
        assert in_threads(lambda: scripted(y).tolist()) == [[4.0, 4.0]]
    with counted(graphs_captured=not LAZY):
        scripted(y)


def test_arguments_on_several_devices(script):
    script(
        """
work = torch.jit.CompilationUnit("def work(x):\\n y = x + 1\\n return y * 2\\n").work
for current, index in [(0, 0)] * 3 + [(0, 1), (1, 1), (1, 0), (1, 1), (0, 0)]:
    torch.hpu.set_device(current)
    y = work(torch.full((2,), float(index), device=f"hpu:{index}"))
    assert y.get_device() == index
    assert y.tolist() == [2.0 * (index + 1)] * 2
""",
        OPENHPU_DEVICE_COUNT="2",
    )


def test_control_flow_on_values():
    @torch.jit.script
    def work(x):
        y = (x * 2 + 1).relu()
        if bool(y.sum() > 10):
            return (y - 1).exp()
        return (y + 1).log()

    for k in (1.0, 5.0, 1.0, 5.0, 5.0):
        x = torch.full((3,), k)
        torch.testing.assert_close(work(x.to("hpu")).cpu(), work(x))


@torch.no_grad()
def test_dropout_draws_what_eager_draws():
    def work(x):
        return nn.functional.dropout(x * 2, 0.5, True) + nn.functional.dropout(x, 0.25, True)

    x = torch.ones(64, device="hpu")
    scripted = torch.jit.trace(work, x, check_trace=False)
    torch.manual_seed(5)
    expected = [work(x).cpu() for _ in range(6)]
    torch.manual_seed(5)
    found = [scripted(x).cpu() for _ in range(6)]
    assert all(map(torch.equal, found, expected))


@torch.no_grad()
def test_inside_a_capture_it_is_part_of_it():
    scripted = torch.jit.trace(_model().to("hpu"), torch.randn(5, 8, device="hpu"))
    x = torch.randn(5, 8, device="hpu")
    _warm(scripted, x)
    graph, result = capture(lambda: scripted(x))
    x.zero_()
    graph.replay()
    torch.testing.assert_close(result.cpu(), _model()(torch.zeros(5, 8)))
    assert not _C.is_capturing()


@torch.no_grad()
def test_work_on_the_cpu_is_left_alone(counted):
    def work(x):
        return ((x + 1) * 2).tanh()

    scripted, x = torch.jit.script(work), torch.randn(5, 8)
    _warm(scripted, x)
    with counted(graph_replays=0):
        scripted(x)
    assert "ScriptGraph" not in str(scripted.graph_for(x))
    # Modules of one class share their optimised graph.
    _warm(torch.jit.script(_model().to("hpu")), x.to("hpu"))
    torch.testing.assert_close(torch.jit.script(_model())(x), _model()(x))
