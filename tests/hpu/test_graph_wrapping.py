"""wrap_in_hpu_graph and wrap_in_hpu_graph_func: keys, memory, arguments that are in the way of a graph."""

import threading

import pytest
import torch
from torch import nn

from tests.hpu.argument_tables import Frozen, Pair
from tests.hpu.support import memory_in_use as in_use

wrap, wrap_function = torch.hpu.wrap_in_hpu_graph, torch.hpu.wrap_in_hpu_graph_func


class Affine(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return self.linear(x) * 2


def model(width=4):
    torch.manual_seed(0)
    return Affine(width).to("hpu")


def test_each_size_is_captured_once_up_to_max_graphs(counted):
    reference = model()
    graphed = wrap(model())
    one = wrap(model(), max_graphs=1)
    with torch.no_grad():
        for batch in (2, 3, 2, 3, 2):
            x = torch.randn(batch, 4).to("hpu")
            assert torch.equal(graphed(x), reference(x))
            assert torch.equal(one(x), reference(x))
        with counted(graph_replays=1):
            graphed(torch.ones(2, 4, device="hpu"))
    assert (graphed.calls, one.calls) == (2, 3)  # one capture, and two calls without a graph
    with pytest.raises(ValueError, match="max_graphs must be 0 or more"):
        wrap(model(), max_graphs=-1)


def test_without_tensor_cache_results_are_new_and_their_memory_goes_with_them():
    width = 256
    reference = model(width)
    graphed = wrap(model(width), disable_tensor_cache=True)
    cached = wrap(model(width))
    nbytes = 64 * width * 4
    with torch.no_grad():
        x = torch.randn(64, width).to("hpu")
        before = in_use()
        first = graphed(x)
        assert in_use() == before + nbytes
        second = graphed(x * 2)
        assert first is not second
        assert torch.equal(first, reference(x))
        assert torch.equal(second, reference(x * 2))
        del first, second
        assert in_use() == before
        cached(x)
        assert in_use() == before + 2 * nbytes  # the copy of the input, the result
        cached.clear_inputs()
        assert in_use() == before + nbytes
        assert torch.equal(cached(x), reference(x))
        cached.clear_cache()
        assert in_use() == before


def test_the_environment_disables_the_tensor_cache(monkeypatch):
    monkeypatch.setenv("PT_HPUGRAPH_DISABLE_TENSOR_CACHE", "1")
    graphed = wrap(model())
    with torch.no_grad():
        x = torch.ones(2, 4, device="hpu")
        assert graphed(x) is not graphed(x)


def test_a_result_that_is_an_argument():
    graphed = wrap_function(lambda x: (x.mul_(2), x[1:]))
    for k in (1.0, 5.0):
        x = torch.full((3,), k, device="hpu")
        whole, part = graphed(x)
        assert whole.tolist() == [2 * k] * 3 == x.tolist()
        assert part.data_ptr() == x[1:].data_ptr()


def test_keys_distinguish_dtypes_numbers_flags_and_structure(counted):
    def work(x, scale=1, options=None):
        y = x * scale
        return y + 1 if options and options["shift"] else y

    graphed = wrap_function(work)
    x, whole = torch.ones(3, device="hpu"), torch.ones(3, dtype=torch.int32, device="hpu")
    cases = [
        ((x,), {}),
        ((whole,), {}),
        ((x, 2), {}),
        ((x, 2.0), {}),
        ((x, True), {}),
        ((x,), {"options": {"shift": True}}),
        ((x,), {"options": {"shift": False}}),
    ]
    with counted(graphs_captured=len(cases)):
        for args, kwargs in cases * 2:
            expected, got = work(*args, **kwargs), graphed(*args, **kwargs)
            assert got.dtype == expected.dtype
            assert got.tolist() == expected.tolist()


def test_results_are_the_same_tensors_and_warmup_and_bypass_leave_them(counted):
    graphed = wrap(model())
    with torch.no_grad():
        x, y = torch.ones(2, 4, device="hpu"), torch.zeros(2, 4, device="hpu")
        out = graphed(x)
        values = out.tolist()
        assert graphed(y) is out
        assert out.tolist() != values
        values = out.tolist()
        with counted(graph_replays=0):
            assert graphed(x, warmup_mode=True) is out
        assert out.tolist() == values
        other = graphed(y, bypass_hpu_graphs=True)
        assert graphed.calls == 2
        assert other is not out
        graphed(x, cache_tensors_list=[x])
        assert graphed.calls == 2


def test_modes_have_graphs_of_their_own():
    class Net(nn.Module):
        def forward(self, x):
            return nn.functional.dropout(x, 0.5, self.training)

    graphed = wrap(Net())
    x = torch.ones(64, device="hpu")
    torch.manual_seed(3)
    first, second = graphed(x).tolist(), graphed(x).tolist()
    graphed.eval()
    assert graphed(x).tolist() == [1.0] * 64
    torch.manual_seed(3)
    expected = [nn.functional.dropout(x, 0.5).tolist() for _ in range(2)]
    assert [first, second] == expected
    with torch.inference_mode():
        assert graphed(x).tolist() == [1.0] * 64
    with torch.autocast("hpu", torch.bfloat16):
        linear = wrap(model())
        assert linear(torch.ones(1, 4, device="hpu")).dtype == torch.bfloat16
    assert linear(torch.ones(1, 4, device="hpu")).dtype == torch.float32


def test_the_default_dtype_has_graphs_of_its_own():
    graphed = wrap_function(lambda x: x.sum() + torch.zeros(2, device="hpu"))
    x = torch.ones(2, device="hpu")
    dtypes = [torch.float32, torch.float32, torch.float64, torch.float64]
    try:
        for dtype in dtypes:
            torch.set_default_dtype(dtype)
            assert graphed(x).dtype is dtype
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("graphed", [wrap, torch.hpu.ModuleCacher(), "by hand"])
def test_weights_are_cast_in_the_graph(graphed):
    """Not in a call before it in the same region of autocast, whose copy of the weight would stay as it is."""
    linear, x = nn.Linear(3, 4, bias=False).to("hpu"), torch.ones(4, 3, device="hpu")
    graph = torch.hpu.HPUGraph()
    run = linear if graphed == "by hand" else graphed(linear)
    for k in range(4):
        with torch.no_grad():
            linear.weight.fill_(k)
        with torch.autocast("hpu", torch.bfloat16):
            if k == 0:
                run(x[:2])
            if graphed != "by hand":
                result = run(x)
            elif k == 0:
                with torch.hpu.graph(graph):
                    result = run(x)
            else:
                graph.replay()
            assert result[0, 0].item() == linear(x[:3])[0, 0].item() == 3.0 * k


@pytest.mark.parametrize("disable_tensor_cache", [False, True])
def test_results_and_arguments_with_a_conjugate_or_negative_bit(disable_tensor_cache):
    """Results may lie in an argument, which may have such a bit itself or lie in memory in another way."""

    def work(z):
        return z.conj(), (z * 2).conj(), z.conj().imag, z.view(-1)

    graphed = wrap_function(work, disable_tensor_cache=disable_tensor_cache)
    memory = torch.ones(5, device="hpu") * 1j
    for k in range(6):
        z = memory[1:] if k == 4 else torch.tensor([k + 1j] * 4, device="hpu")
        z = z.conj() if k % 2 else z
        for result, expected in zip(graphed(z), work(z), strict=True):
            assert result.tolist() == expected.tolist()
    graph = torch.hpu.HPUGraph()
    with pytest.raises(RuntimeError, match="without a conjugate or negative bit"), torch.hpu.graph(graph):
        graph.mark_user_inputs([z])


def test_an_argument_on_the_cpu_runs_without_a_graph():
    graphed = wrap_function(lambda x, y: x + y.to("hpu"))
    x = torch.ones(2, device="hpu")
    for k in (1.0, 2.0):
        with pytest.warns(RuntimeWarning, match="an argument is a tensor on the CPU"):
            assert graphed(x, torch.full((2,), k)).tolist() == [1 + k] * 2


def test_what_cannot_be_wrapped():
    with pytest.raises(TypeError, match=r"expected a torch\.nn\.Module, got function"):
        wrap(lambda x: x)
    with pytest.raises(TypeError, match="expected a function, got int"):
        wrap_function(3)


def test_new_inputs_are_copied_into_those_of_a_graph():
    """As libraries write it: they keep the inputs of a capture, and copy into them before each replay."""
    x = [torch.ones(2, device="hpu"), {"scale": torch.ones((), device="hpu")}, 3]
    graph = torch.hpu.HPUGraph()
    with torch.hpu.stream(torch.hpu.Stream()):
        graph.capture_begin()
        y = x[0] * x[1]["scale"] + 1
        graph.capture_end()
    new = [torch.tensor([3.0, 4.0]), {"scale": torch.full((), 10.0, device="hpu")}, 3]
    torch.hpu.graphs.copy_to(x, new)
    graph.replay()
    torch.hpu.synchronize()
    assert y.tolist() == [31.0, 41.0]
    with pytest.raises(ValueError, match="there are 1 tensors to copy into 2; expected as many"):
        torch.hpu.graphs.copy_to(x, new[:1])
    with pytest.raises(ValueError, match=r"tensor 0 has the shape \[3\], its destination \[2\]; expected the same"):
        torch.hpu.graphs.copy_to(x, [torch.ones(3), *new[1:]])


def test_a_packer_takes_nested_tensors_apart():
    packer = torch.hpu.TensorPacker()
    x, y = torch.ones(2, device="hpu"), torch.zeros(3, device="hpu")
    value = {"pair": Pair(x, [y, x, "text"]), "frozen": Frozen(y, 3)}
    tensors, rest = packer.pack(value)
    assert [id(t) for t in tensors] == [id(x), id(y)]
    assert repr(rest) == "{'pair': Pair(m=#0, other=[#1, #0, 'text']), 'frozen': Frozen(m=#1, scale=3)}"
    again = packer.unpack([y, x], rest)
    assert again["pair"].m is again["pair"].other[1] is y
    assert again["frozen"].m is x
    with pytest.raises(IndexError):
        packer.unpack([y], rest)


def test_a_cache_that_takes_most_of_the_memory_is_written_by_a_graph(script):
    """As a server's cache of keys and values: the capture needs no second one on the device, and has no effect."""
    code = """
    class Step(torch.nn.Module):
        def forward(self, rows, slots, cache):
            cache.index_copy_(0, slots, rows)
            return cache.index_select(0, slots).sum(1)
    step = torch.hpu.wrap_in_hpu_graph(Step(), disable_tensor_cache=True)
    cache = torch.zeros(160000, 256, device="hpu")  # 156 of 256 MiB
    with torch.no_grad():
        for k in range(3):
            rows, slots = torch.full((2, 256), k + 1.0, device="hpu"), torch.tensor([k, 10 + k]).to("hpu")
            print(step(rows, slots, cache).tolist())
    print(int(cache.count_nonzero()))
    """
    assert script(code, OPENHPU_MEMORY_GB="0.25").out.splitlines() == [
        *(f"[{256.0 * k}, {256.0 * k}]" for k in (1, 2, 3)),
        str(6 * 256),
    ]


def test_threads_that_first_call_one_module_all_get_its_results(counted):
    """One of them captures, the others run without a graph meanwhile; so do those that another capture keeps."""
    entered, go = threading.Event(), threading.Event()

    class Slow(nn.Module):
        def forward(self, x):
            if threading.current_thread() is first:
                entered.set()
                assert go.wait(30)
            return x * 2

    module = torch.hpu.wrap_in_hpu_graph(Slow().to("hpu"))
    trained = torch.hpu.ModuleCacher()(nn.Linear(4, 4).to("hpu"))
    found = {}

    def call(name, function, value):
        found[name] = function(torch.full((2, 4), value, device="hpu")).detach().cpu()

    first = threading.Thread(target=call, args=("first", module, 1.0))
    first.start()
    assert entered.wait(30)
    others = [threading.Thread(target=call, args=(k, module, float(k))) for k in range(2, 5)]
    others.append(threading.Thread(target=call, args=("trained", trained, 1.0)))
    for each in others:
        each.start()
    for each in others:
        each.join(30)
    go.set()
    first.join(30)
    assert {name: value[0, 0].item() for name, value in found.items() if name != "trained"} == {
        "first": 2.0,
        2: 4.0,
        3: 6.0,
        4: 8.0,
    }
    assert found["trained"].shape == (2, 4) and trained.graph_statistics()["captures"] == 0
    with counted(graphs_captured=0, graph_replays=1):
        module(torch.ones(2, 4, device="hpu"))
    trained(torch.ones(2, 4, device="hpu"))
    assert trained.graph_statistics()["captures"] == 1
