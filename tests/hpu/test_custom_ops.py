"""User operators: from C++ that Gaudi's headers build, in every mode. docs/custom-ops.md is the page."""

import re

import pytest
import torch
from torch._subclasses import FakeTensorMode

from openhpu import _C
from openhpu.interface.custom_ops import user_operators
from tests.hpu import custom_ops
from tests.hpu.support import capture, compiled, counted

OPS = torch.ops.openhpu_test


@pytest.fixture(scope="module", autouse=True)
def library():
    custom_ops.loaded()


def hpu(*sizes):
    return torch.randn(sizes).to("hpu")


def test_loading_says_what_is_registered_wrongly():
    error = custom_ops.loaded()
    assert "openhpu_test::twice was registered twice, for the guids 'test_add_f32' and 'test_sum_f32'" in error
    assert "openhpu_test::no_callback: it was registered without a callback" in error


def test_a_kernel_runs_through_the_queue():
    x = hpu(8, 8)
    with counted(ops_issued=1, ops_waited=0):
        y = OPS.scale(x, 3.0)
    assert y.device == x.device and y.is_contiguous()
    assert torch.equal(y.cpu(), x.cpu() * 3)


def test_it_is_asynchronous(gate):
    x = hpu(4)
    x.clone().fill_(1)  # its metadata is known from here on
    torch.hpu.synchronize()
    with gate:
        y = OPS.scale(x, 2.0)  # would never return if it waited
        x.fill_(1)  # in order behind it
    assert not torch.equal(y.cpu(), torch.full((4,), 2.0))


def test_params_change_without_a_new_signature():
    x = hpu(3)
    OPS.scale(x, 1.0)
    with counted(ops_waited=0):
        results = [OPS.scale(x, float(k)).cpu() for k in range(5)]
    for k, result in enumerate(results):
        assert torch.equal(result, x.cpu() * k)


def test_two_results_of_other_sizes_and_dtypes():
    x = hpu(5, 7)
    for k, descending in ((3, True), (1, False), (7, True)):
        values, indices = OPS.top(x, k, descending)
        expected = torch.topk(x.cpu(), k, largest=descending)
        assert torch.equal(values.cpu(), expected.values) and torch.equal(indices.cpu(), expected.indices)


@pytest.mark.parametrize(
    "make",
    [
        lambda: hpu(6, 4).t(),
        lambda: hpu(8, 8)[::2, 1::3],
        lambda: hpu(3).expand(4, 3),
        lambda: hpu(2, 3, 4, 4).to(memory_format=torch.channels_last),
        lambda: hpu(10)[3:],
        lambda: hpu(),
        lambda: hpu(0, 3),
        lambda: hpu(2, 2).conj(),
    ],
    ids=["transposed", "strided", "expanded", "channels last", "offset", "scalar", "empty", "conjugated"],
)
def test_operands_arrive_contiguous(make):
    x = make()
    y = OPS.scale(x, 0.5)
    assert y.shape == x.shape and torch.equal(y.cpu(), x.cpu() * 0.5)


def test_in_place_and_out_forms():
    x, y = hpu(4, 4), hpu(4, 4)
    start = x.cpu()
    view = x[1:3]
    assert OPS.add_(view, y[:2]) is view
    expected = start.clone()
    expected[1:3] += y.cpu()[:2]
    assert torch.equal(x.cpu(), expected)
    assert torch.equal(OPS.add_(x, x).cpu(), expected * 2)
    out = torch.empty(0, device="hpu")
    assert OPS.add.out(y, y, out=out) is out
    assert torch.equal(out.cpu(), y.cpu() * 2)
    wide = torch.zeros(4, 8, device="hpu")
    OPS.add.out(y, y, out=wide[:, ::2])
    assert torch.equal(wide.cpu()[:, ::2], y.cpu() * 2) and not wide.cpu()[:, 1::2].any()


def test_lists_and_optional_tensors():
    a, b = hpu(3), hpu(3)
    assert torch.equal(OPS.sum([a, b]).cpu(), a.cpu() + b.cpu())
    assert torch.equal(OPS.sum([a, b], a).cpu(), a.cpu() + b.cpu() + a.cpu())


def test_a_number_on_the_cpu_is_moved():
    assert torch.equal(OPS.sum([hpu(), torch.tensor(2.0)]).cpu() * 0, torch.tensor(0.0))


def test_several_devices(script):
    code = """
    from tests.hpu import custom_ops
    from tests.hpu.support import capture

    custom_ops.loaded()
    ops = torch.ops.openhpu_test
    xs = [torch.randn(4).to(f"hpu:{k}") for k in range(2)]
    for _ in range(3):
        ys = [ops.scale(x + 1, 2.0) for x in xs]
        for x, y in zip(xs, ys):
            assert y.device == x.device and torch.equal(y.cpu(), (x.cpu() + 1) * 2)
            layout = [3, 1, 1]  # an int32 of the size 1
            (where,) = ops.of_guid([x], "test_device_i32", layout, [])
            assert where.device == x.device and where.item() == x.device.index
    with torch.hpu.device(1):
        graph, y = capture(lambda: ops.scale(xs[1], 3.0))
        graph.replay()
    assert torch.equal(y.cpu(), xs[1].cpu() * 3)
    with pytest.raises(RuntimeError, match="(?=.*hpu:0)(?=.*hpu:1)"):
        ops.sum(xs)
    """
    script(code, OPENHPU_DEVICE_COUNT="2")


def test_captured_and_replayed():
    x = hpu(4, 4)
    OPS.scale(x, 2.0)

    def work():
        y = OPS.scale(x + 1, 2.0)
        values, _ = OPS.top(y, 2, True)
        return OPS.add_(y, x), values

    graph, (y, values) = capture(work)
    x.copy_(torch.arange(16.0).reshape(4, 4))
    calls = {row["schema"]: row["calls"] for row in user_operators()}
    graph.replay()
    expected = (x.cpu() + 1) * 2
    assert torch.equal(values.cpu(), torch.topk(expected, 2).values)
    assert torch.equal(y.cpu(), expected + x.cpu())
    assert calls == {row["schema"]: row["calls"] for row in user_operators()}


def test_torch_compile_takes_it_into_its_graph():
    def work(x):
        values, indices = OPS.top(OPS.scale(x.relu(), 2.0) + 1, 2, True)
        return values * 2, indices

    f = compiled(work, fullgraph=True)
    for _ in range(3):
        x = hpu(4, 6)
        for mine, theirs in zip(f(x), work(x), strict=True):
            assert torch.equal(mine.cpu(), theirs.cpu())


def test_without_a_meta_kernel_the_error_has_the_lines_to_write(usable):
    x = hpu(3)

    def work(x):
        return OPS.sum([x * 2]) + 1

    def as_fake(x):
        with FakeTensorMode() as mode:
            work(mode.from_tensor(x))

    message = (
        r'openhpu_test::sum: .*no kernel at the key Meta.*TORCH_LIBRARY_IMPL\(openhpu_test, Meta, m\) \{ m.impl\("sum"'
    )
    for ask in (as_fake, compiled(work, fullgraph=True)):
        with pytest.raises(Exception, match=f"(?s){message}.*register_fake"):
            ask(x)
    assert torch.equal(compiled(work)(x).cpu(), x.cpu() * 2 + 1)  # the graph ends there


def test_autograd_by_the_user():
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor):
            ctx.factor = factor
            return OPS.scale(x, factor)

        @staticmethod
        def backward(ctx, grad):
            return OPS.scale(grad, ctx.factor), None

    x = hpu(3).requires_grad_()
    Scale.apply(x, 3.0).sum().backward()
    assert x.grad.tolist() == [3.0] * 3


def test_fake_tensors():
    with torch._subclasses.FakeTensorMode():
        y = OPS.scale(torch.empty(3, 4, device="hpu"), 2.0)
    assert y.shape == (3, 4) and y.device.type == "hpu"


def test_a_kernel_in_python():
    x = hpu(3, 5)
    assert torch.equal(OPS.by_name(x, "openhpu_test::in_python").cpu(), x.cpu() ** 2)


def test_operators_and_the_sources_of_their_kernels():
    OPS.scale(hpu(3), 1.0)
    rows = {row["schema"]: row for row in user_operators()}
    assert rows["openhpu_test::scale"]["kernel"] == "C++ function"
    assert rows["openhpu_test::scale"]["calls"] > 0
    assert rows["openhpu_test::no_kernel"]["kernel"] is None


WRONG = {
    "openhpu_test::callback_throws": "openhpu_test::callback_throws: its callback for dtype and sizes of its results "
    "failed: no such dimension",
    "openhpu_test::kernel_throws": "openhpu_test::kernel_throws: its kernel for the guid 'test_throws' failed: the "
    "third element is negative",
    "openhpu_test::kernel_throws_a_number": "it threw an object that is no std::exception",
    "openhpu_test::no_kernel": "openhpu_test::no_kernel wants a kernel for the guid 'test_nobody_has_it', and there is "
    "none: .*GC_KERNEL_PATH lists no library.*OPENHPU_CUSTOM_KERNEL.*@openhpu.custom_kernel",
    "openhpu_test::no_params": "the kernel test_scale_f32 expects params of 4 bytes, but the operator gives 0 bytes",
    "openhpu_test::one_operand": "the kernel test_add_f32 asks for input 1 of 1",
    "openhpu_test::kernel_twice": "a C\\+\\+ function is registered for the guid 'test_twice' already",
    "openhpu_test::never_defined": "openhpu_test::never_defined was registered as a user operator, but no schema",
    "openhpu_test::no_callback": "openhpu_test::no_callback: it was registered without a callback",
    "openhpu_test::twice": "openhpu_test::twice was registered twice",
    "openhpu_test::nobody": "no user operator openhpu_test::nobody is registered: register it with",
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_name_the_operator(name, usable):
    with pytest.raises(RuntimeError) as raised:
        OPS.by_name(hpu(3), name)
        torch.hpu.synchronize()
    assert re.search(WRONG[name], str(raised.value), re.DOTALL), raised.value


@pytest.mark.parametrize(
    "name, what",
    [
        ("openhpu_test::beside", "it wrote up to 4 bytes behind the memory of output 0"),
        ("openhpu_test::into_input", "it wrote into input 0"),
    ],
)
def test_checked_kernels(name, what, usable):
    _C.check_kernels(True)
    try:
        with pytest.raises(RuntimeError, match=re.escape(what)):
            OPS.by_name(hpu(5), name)
            torch.hpu.synchronize()
        x = hpu(3)
        assert torch.equal(OPS.scale(x, 2.0).cpu(), x.cpu() * 2)
    finally:
        _C.check_kernels(False)


def test_an_operand_of_another_dtype_or_device(usable):
    with pytest.raises(RuntimeError, match="asks for input 0 as elements of 4 bytes"):
        OPS.scale(hpu(3).double(), 2.0)
        torch.hpu.synchronize()
