"""Graphs that hold what their host has to do in each call: numbers on the CPU, checks of values, streams and events.

`use_eager_fallback` is off, so each is an error where a graph can't hold it.
"""

from functools import partial

import pytest
import torch
from torch.nn import functional as F

from openhpu.capture.torch_compile import EagerFallbackError
from tests.hpu import support

pytestmark = pytest.mark.usefixtures("compiled_graphs")

# The same number, dtype or count in each call; calls 0 and 1 have the same sizes, call 2 has others.
N = (6, 6, 9)
compiled = partial(support.compiled, fullgraph=True, options={"use_eager_fallback": False})


def floats(k, *more, dtype=torch.float32):
    return torch.randn(N[k], *more, generator=torch.Generator().manual_seed(k)).to(dtype).to("hpu")


def ints(k, dtype=torch.int32):
    return (torch.arange(N[k]) * (k + 2) - 3).to(dtype).to("hpu")


def number(k, dtype):
    return torch.tensor((2.5, 0.5, 1.25)[k]).to(dtype)


def probabilities(k, *more, dtype=torch.float32):
    return floats(k, *more).abs().add(0.1).to(dtype)


def positive_definite(k):
    a = floats(k, N[k])
    return a @ a.mT + torch.eye(N[k], device="hpu") * N[k]


def repeats(k, *counts):
    return floats(k, 3)[:2].contiguous(), torch.tensor(counts[k]).to("hpu")


def one(k):
    return (floats(k),)


def with_number(k):
    return floats(k), number(k, torch.float32)


def write_and_double(x, c):
    x[:2].copy_(c)
    return x * 2


NUMBERS = {
    "float, integers": (lambda x, s: torch.add(x, s, alpha=1), lambda k: (ints(k), (2.5, 3.5, -1.5)[k])),
    "integer, floats": (lambda x, s: x * s + s, lambda k: (floats(k), (2, 3, 7)[k])),
    "float, bools": (lambda x, s: x * s, lambda k: (ints(k) > 0, (2.5, 3.5, -1.5)[k])),
    "number computed": (lambda x, s: x.float() / x.shape[0] * (s * 2) + x.shape[0] * s, lambda k: (ints(k), 1.5 + k)),
    "float64 tensor": (lambda x, c: x - c, lambda k: (ints(k), number(k, torch.float64))),
    "integer tensor": (lambda x, c: (x * c, c + 1), lambda k: (floats(k), number(k, torch.int64))),
    "bool tensor": (lambda x, c: torch.where(c, x, 1.5), lambda k: (floats(k), number(k, torch.bool))),
    "tensors and constant": (lambda x, c: x + c * torch.tensor(3.0), lambda k: (ints(k), number(k, torch.float32))),
    "bfloat16": (lambda x, c, s: x * c + s, lambda k: (floats(k, dtype=torch.bfloat16), number(k, torch.float32), 0.3)),
    "tensor for lists": (lambda x, c: torch._foreach_mul([x, x + 1], c), with_number),
    "tensor written": (write_and_double, with_number),
    "tensor moved": (lambda x, c: x.int() + c.to("hpu", torch.float16), with_number),
}
RANDOM = {
    "multinomial": (lambda p: torch.multinomial(p, 2), lambda k: (probabilities(k),)),
    "multinomial, replacement": (lambda p: p.multinomial(9, replacement=True), lambda k: (probabilities(k, 4),)),
    "multinomial, one": (lambda x: torch.multinomial(x.softmax(-1), 1).squeeze(1), lambda k: (floats(k, 5),)),
    "multinomial, bfloat16": (
        lambda p: (torch.multinomial(p, 3), torch.rand_like(p)),
        lambda k: (probabilities(k, dtype=torch.bfloat16),),
    ),
    "normal": (lambda m, s: torch.normal(m, s), lambda k: (floats(k), probabilities(k))),
    "normal, std": (lambda s: torch.normal(0.5, s), lambda k: (probabilities(k, 2),)),
    "normal, mean": (lambda m: torch.normal(m, 2.0), one),
    "normal, broadcast": (
        lambda m, s: torch.normal(m, s) + torch.rand_like(m),
        lambda k: (floats(k, 3), probabilities(1)[:3]),
    ),
    "native_dropout": (lambda x: torch.native_dropout(x, 0.3, True), lambda k: (floats(k, dtype=torch.bfloat16),)),
}
CHECKED = {
    "cholesky": (lambda a: torch.linalg.cholesky(a), lambda k: (positive_definite(k),)),
    "cholesky, upper": (lambda a: torch.linalg.cholesky(a * 2, upper=True).mT + 1, lambda k: (positive_definite(k),)),
    "cholesky_ex": (lambda a: torch.linalg.cholesky_ex(a, check_errors=True), lambda k: (positive_definite(k),)),
    "cholesky twice": (
        lambda a: torch.linalg.cholesky(torch.linalg.cholesky(a) @ a.mT @ a) + torch.rand_like(a),
        lambda k: (torch.eye(N[k], device="hpu") * (k + 2),),
    ),
}
SIZES = {
    "one_hot": (lambda x: F.one_hot(x, num_classes=40), lambda k: (ints(k, torch.int64).abs(),)),
    "one_hot, loss": (lambda x: (x.relu() * F.one_hot(x.argmax(-1), x.shape[1])).sum(), lambda k: (floats(k, 4),)),
    "one_hot, argument": (lambda x, n: F.one_hot(x, n), lambda k: (ints(k, torch.int64).abs(), 30 + k)),
    "repeat_interleave": (
        lambda x, r: x.repeat_interleave(r, dim=0, output_size=8) + 1,
        lambda k: repeats(k, (3, 5), (8, 0), (1, 7)),
    ),
    "repeat_interleave, argument": (
        lambda x, r, n: torch.repeat_interleave(x, r, dim=0, output_size=n),
        lambda k: (*repeats(k, (3, 5), (8, 0), (1, 9)), (8, 8, 10)[k]),
    ),
    "repeat_interleave, counts": (
        lambda r: torch.repeat_interleave(r, output_size=8),
        lambda k: repeats(k, (3, 5), (8, 0), (1, 7))[1:],
    ),
}


def of_events(x):
    start, end, stream = torch.hpu.Event(), torch.hpu.Event(enable_timing=True), torch.hpu.Stream()
    y = x + 1
    start.record()
    with torch.hpu.stream(stream):
        start.wait()
        z = y * 2
        end.record(stream)
    end.wait(torch.hpu.current_stream())
    return z - y


def of_waits(x):
    stream, current = torch.hpu.Stream(), torch.hpu.current_stream()
    with torch.hpu.stream(stream):
        y = x * 3
    stream.synchronize()
    current.synchronize()
    current.record_event().synchronize()
    with torch.hpu.stream(torch.hpu.default_stream()), torch.hpu.stream(None):
        z = y + 1
    torch.hpu.synchronize()
    return z * 2


def checked(message):
    def add_one(x):
        torch._assert_async(x.isfinite().all(), message)
        return x + 1

    return add_one


NATIVE = {
    "prims": (lambda x: torch.ops.prims.convert_element_type(x, torch.bfloat16) + 1, one),
    "indices": (lambda x, i: x[i, i] * 2, lambda k: (floats(k, 5), torch.tensor([1, 3]).to("hpu"))),
    "assertion": (checked("not finite"), one),
    "8-bit floats": (lambda x: (x.to(torch.float8_e4m3fn) * 2).to(torch.bfloat16), one),
    "8-bit product": (lambda x: torch.mm(*[x.to(torch.float8_e5m2)] * 2).float(), lambda k: (floats(k, N[k]),)),
}
STREAMS = {f.__name__: (f, one) for f in (of_events, of_waits)}
PROGRAMS = NUMBERS | RANDOM | CHECKED | SIZES | NATIVE | STREAMS


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_graph_holds_it(name, compiled_graphs, counted):
    """The numbers of eager mode, in calls of two sizes and other values, and no operator beside the replays."""
    function, arguments = PROGRAMS[name]
    f = compiled(function, dynamic=True)
    for k in (0, 1, 2):
        torch.manual_seed(k)
        expected = function(*arguments(k)), torch.rand(2, device="hpu")
        for call in range(2):
            given = arguments(k)
            torch.manual_seed(k)
            with counted() as moved:
                actual = f(*given)
            torch.testing.assert_close((actual, torch.rand(2, device="hpu")), expected, rtol=0, atol=0)
            if call == 1 or (k == 1 and not any(isinstance(x, int) for x in given)):  # integers are sizes
                assert moved["graph_replays"] >= 1
                assert not moved["graphs_captured"]
                assert not moved["ops_fallback"]
                assert moved["ops_issued"] <= moved["copies_h2d"] + 3 * (name in CHECKED)
    assert not any(graph.layout.eager for graph in compiled_graphs)
    assert all(graph.layout.clusters for graph in compiled_graphs)


def test_numbers_are_arguments_of_one_capture(counted):
    """No capture for each number, and no cut but for the host's part at the start."""
    f = compiled(lambda x, s, c: (x * s + 1) * (c + s), dynamic=True)
    x = torch.arange(4, device="hpu")
    f(x, 0.5, torch.tensor(1.5))
    with counted(graphs_captured=0, graph_replays=5):
        for k in range(5):
            assert f(x, k + 0.25, torch.tensor(float(k)))[1].item() == (k + 1.25) * (2 * k + 0.25)


def test_a_number_that_the_graph_writes():
    """As an optimizer counts its steps."""

    def work(x, step):
        step += 1
        return x / (1 - 0.5**step)

    step, expected = torch.tensor(0.0), torch.tensor(0.0)
    f = compiled(work)
    x = torch.ones(3, device="hpu")
    for _ in range(4):
        torch.testing.assert_close(f(x, step), work(x, expected), rtol=0, atol=0)
    assert step.item() == 4


def test_tensors_of_the_cpu_are_none_of_the_hosts_numbers():
    with pytest.raises(Exception, match=r"aten::add.Tensor can't be part of a compiled graph \(it works on cpu\)"):
        compiled(lambda x, c: x * (c + 1).sum().to("hpu"))(torch.ones(2, device="hpu"), torch.ones(2))


def test_only_an_operator_without_a_graph_is_refused():
    """Not the check behind it, which the host makes."""
    with pytest.raises(EagerFallbackError, match=r"aten::linalg_inv_ex can't be part"):
        compiled(lambda a: torch.linalg.inv(a))(torch.eye(3, device="hpu"))


@pytest.mark.parametrize(
    ("function", "good", "bad", "message"),
    [
        (lambda p: torch.multinomial(p, 1), [0.5, 0.5], [0.5, -1.0], "element < 0"),
        (lambda p: torch.multinomial(p, 1), [0.5, 0.5], [0.0, 0.0], "sum of probabilities <= 0"),
        (lambda s: torch.normal(0.0, s), [0.5, 0.5], [0.5, -1.0], "std >= 0.0"),
        (lambda a: torch.linalg.cholesky(a) * 2, [[4.0]], [[-1.0]], "not positive-definite"),
        (lambda x: F.one_hot(x, 3), [0, 2], [0, 3], "index 3 is out of bounds"),
        (checked("no number"), [1.0], [torch.inf], "no number"),
    ],
)
@pytest.mark.usefixtures("strict_indices")
def test_values_are_checked_in_a_replay(function, good, bad, message):
    """With the class of error of eager mode."""

    def fails(function, kind):
        with pytest.raises(kind, match=message) as error:
            function(torch.tensor(bad, device="hpu"))
            torch.hpu.synchronize()
        return type(error.value)

    kind = fails(function, RuntimeError)
    f = compiled(function)
    for _ in range(3):
        f(torch.tensor(good, device="hpu"))
        f(torch.tensor(good, device="hpu"))
        fails(f, kind)


def test_events_are_recorded_in_each_call(gate):
    event, stream = torch.hpu.Event(), torch.hpu.Stream()

    def work(x):
        with torch.hpu.stream(stream):
            y = x + 1
            event.record()
        return y * 2

    f = compiled(work)
    x = torch.ones(3, device="hpu")
    f(x)
    f(x)
    torch.hpu.synchronize()
    for _ in range(2):
        assert event.query()
        assert stream.query()
        with gate:
            y = f(x)
            assert not event.query()
            assert not stream.query()  # what runs on the stream is not done
        event.synchronize()
        assert y.tolist() == [4.0] * 3


@pytest.mark.parametrize("what", [torch.hpu.Event, torch.hpu.Stream, torch.Event])
def test_each_call_asks_whether_work_is_done(what, gate):
    """Dynamo would keep the answer that it got while it traced."""
    x = torch.ones(3, device="hpu")
    done = what()

    def work(x):
        return (x + 1, done.query(), x * 2)

    def call():
        if isinstance(done, torch.Event):
            done.record()
        else:
            done.wait_stream(torch.hpu.current_stream())
        return f(x)

    f = support.compiled(work)
    call()
    call()
    for _ in range(2):
        torch.hpu.synchronize()
        with gate:
            f(x)
            assert call()[1] is False
        torch.hpu.synchronize()
        a, answer, b = f(x)
        assert answer is True
        assert a.tolist() == b.tolist() == [2.0] * 3
    with pytest.raises(torch._dynamo.exc.Unsupported, match="leave fullgraph at False"):
        compiled(work)(x)


def test_streams_in_training(counted):
    stream = torch.hpu.Stream()

    def work(x, w):
        stream.wait_stream(torch.hpu.current_stream())
        with torch.hpu.stream(stream):
            y = x * w
        torch.hpu.current_stream().wait_stream(stream)
        return (y * y).sum()

    f = compiled(work)
    for k in range(3):
        w = torch.full((3,), k + 1.0, device="hpu", requires_grad=True)
        with counted(graph_replays=2 if k else 0):  # forward and backward, each whole
            f(torch.ones(3, device="hpu"), w).backward()
        assert w.grad.tolist() == [2.0 * k + 2] * 3


def test_effects_of_other_operators(compiled_graphs):
    """An operator of the script without results runs in each call, in its order."""
    seen = []

    @torch.library.custom_op("test_compile_host::note", mutates_args=())
    def note(x: torch.Tensor) -> None:
        seen.append(x.tolist())

    note.register_fake(lambda x: None)
    torch._higher_order_ops.effects._register_effectful_op(
        torch.ops.test_compile_host.note.default, torch._library.effects.EffectType.ORDERED
    )

    def work(x):
        y = x + 1
        torch.ops.test_compile_host.note(y)
        return y * 2

    f = compiled(work)
    for k in range(3):
        assert f(torch.full((1,), k, device="hpu")).tolist() == [2 * k + 2]
    assert seen == [[1], [2], [3]]
    assert [dict(c) for c in compiled_graphs[0].layout.clusters] == [{"aten::add.Tensor": 1}, {"aten::mul.Tensor": 1}]
