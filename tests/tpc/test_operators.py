"""The operators of the example's kernels by GC_KERNEL_PATH, in each mode: values, gradients, graphs, errors."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from commands import ROOT
from examples.tpc import operators
from openhpu.interface.custom_ops import user_operators
from tests.hpu.support import capture, compiled, counted
from tests.tpc.libraries import built, make_known

EXAMPLE = ROOT / "examples" / "tpc"
MODES = ["as the process runs", "captured", "compiled"]
OPS = torch.ops.tpc_example


@pytest.fixture(scope="module", autouse=True)
def libraries():
    sources = {path.name: path.read_text() for path in sorted((EXAMPLE / "kernels").glob("*.c"))}
    library = built(sources | {"glue.cpp": (EXAMPLE / "glue.cpp").read_text()})
    described = [EXAMPLE / "described" / name for name in ("silu_and_mul_bf16.c", "silu_and_mul.toml")]
    layer = built({path.name: path.read_text() for path in described})
    folder = ROOT / "build" / "tests" / "tpc" / "operators" / torch.__version__
    folder.mkdir(parents=True, exist_ok=True)
    operators.load_operators(folder)
    make_known(library)
    make_known(layer)
    return str(library)


def values(*sizes):
    return torch.randn(*sizes)


# A function of each operator, PyTorch's, and its operands.
CASES = {
    "silu": (operators.silu, functional.silu, lambda: (values(3, 5, 100),)),
    "product": (operators.product, torch.matmul, lambda: (values(9, 33), values(33, 70))),
    "row_softmax": (operators.row_softmax, lambda x: x.softmax(-1), lambda: (values(2, 3, 129) * 3,)),
    "rms_norm": (
        operators.rms_norm,
        lambda x, w: functional.rms_norm(x, w.size(), w, 1e-5),
        lambda: (values(4, 5, 100), values(100)),
    ),
}


def with_gradients(function, operands, grad):
    """The result and the gradients of all operands."""
    result = function(*operands)
    return result.detach(), *torch.autograd.grad(result, operands, grad)


def in_mode(mode, function):
    if mode == "compiled":
        return compiled(function, fullgraph=True)
    return function


def agree(mine, theirs):
    for a, b in zip(mine, theirs, strict=True):
        torch.testing.assert_close(a.cpu(), b, rtol=1e-4, atol=1e-5)


# Dynamo makes an instance of the user's class.
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients(name, mode):
    mine, theirs, make = CASES[name]
    operands = [operand.requires_grad_() for operand in make()]
    grad = torch.randn(theirs(*operands).size())
    on_hpu = [operand.detach().to("hpu").requires_grad_() for operand in operands]
    grad_on_hpu = grad.to("hpu")
    function = in_mode(mode, mine)
    run = lambda: with_gradients(function, on_hpu, grad_on_hpu)  # noqa: E731
    for _ in range(3):
        results = run()
        torch.hpu.synchronize()
    agree(results, with_gradients(theirs, operands, grad))
    if mode != "captured":
        return
    graph, results = capture(run)
    changed = [operand.detach() * 0.5 for operand in operands]
    with torch.no_grad():
        for there, here in zip(on_hpu, changed, strict=True):
            there.copy_(here)
    with counted(ops_submitted=0, ops_recorded=0):
        graph.replay()
    agree(results, with_gradients(theirs, [operand.requires_grad_() for operand in changed], grad))


class Mlp(nn.Module):
    """As in a Llama of vLLM, whose activation the kernel computes on hpu (examples/tpc/serve.py)."""

    def __init__(self):
        super().__init__()
        self.up = nn.Linear(48, 2 * 70, bias=False, dtype=torch.bfloat16)
        self.down = nn.Linear(70, 48, bias=False, dtype=torch.bfloat16)

    def forward(self, x):
        x = self.up(x)
        if x.device.type == "hpu":
            return self.down(operators.silu_and_mul(x))
        gate, up = x.chunk(2, -1)
        return self.down((functional.silu(gate.float()) * up.float()).bfloat16())


@torch.inference_mode()
def test_a_layer_of_a_model():
    model, x = Mlp(), torch.randn(2, 5, 48).bfloat16()
    wanted = model(x)
    on_hpu, model = x.to("hpu"), model.to("hpu")
    torch.testing.assert_close(model(on_hpu).cpu(), wanted, rtol=2e-2, atol=2e-2)
    graph, result = capture(lambda: model(on_hpu))
    with counted(ops_submitted=0, ops_recorded=0):
        graph.replay()
    torch.testing.assert_close(result.cpu(), wanted, rtol=2e-2, atol=2e-2)


def test_the_kernels_are_those_of_the_library(libraries):
    x = torch.randn(2, 3, device="hpu")
    OPS.silu(x)
    rows = {row["schema"]: row for row in user_operators()}
    assert rows["tpc_example::silu"]["kernel"] == libraries


def test_an_output_that_the_glue_wants_cleared_begins_at_zero():
    x = torch.ones(0, 70, device="hpu")
    for _ in range(3):
        torch.full((70,), 5.0, device="hpu").add_(1)  # memory that the result may get
        _, weight = OPS.rms_norm_backward(x, x, torch.ones(70, device="hpu"), torch.ones(0, 1, device="hpu"))
        assert not weight.cpu().any()


def test_more_parameters_than_are_kept():
    x, weight = torch.randn(1, 4), torch.ones(4)
    on_hpu, weight_on_hpu = x.to("hpu"), weight.to("hpu")
    for k in range(1030):
        y, _ = OPS.rms_norm(on_hpu, weight_on_hpu, 1.0 + k)
    torch.testing.assert_close(y.cpu(), functional.rms_norm(x, (4,), weight, 1030.0))


WRONG = {
    "dtype": (lambda: OPS.silu(torch.ones(2, 3, device="hpu", dtype=torch.int32)), "silu", "silu_fwd_f32", ""),
    "no type of kernels": (
        lambda: OPS.silu(torch.ones(2, 3, device="hpu", dtype=torch.float64)),
        "silu",
        "silu_fwd_f32",
        "no type for float64",
    ),
    "dimensions": (
        lambda: OPS.silu(torch.ones(1, 1, 1, 1, 1, 3, device="hpu")),
        "silu",
        "silu_fwd_f32",
        "a tensor has 6 dimensions",
    ),
    "size": (
        lambda: OPS.row_softmax(torch.ones(1, 20_000, device="hpu")),
        "row_softmax",
        "row_softmax_f32",
        "",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_an_error_names_operator_and_guid(what):
    call, name, guid, why = WRONG[what]
    with pytest.raises(RuntimeError) as raised:
        call()
        torch.hpu.synchronize()
    text = str(raised.value)
    assert f"tpc_example::{name}" in text
    assert f"'{guid}'" in text
    assert why in text
    x = torch.randn(2, 3)
    torch.testing.assert_close(OPS.silu(x.to("hpu")).cpu(), functional.silu(x), rtol=1e-4, atol=1e-5)
