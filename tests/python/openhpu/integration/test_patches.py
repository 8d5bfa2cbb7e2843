import ast
from pathlib import Path

import pytest
import torch

import openhpu
from openhpu.integration import patches


def test_tensors(hpu):
    x = torch.arange(3.0)
    y = x.hpu()
    assert not x.is_hpu
    assert y.is_hpu
    assert y.device == torch.device("hpu:0")
    assert y.hpu("hpu:0") is y
    assert x.hpu(0, non_blocking=True).tolist() == [0, 1, 2]
    channels_last = torch.ones(1, 2, 3, 4).hpu(memory_format=torch.channels_last)
    assert channels_last.is_contiguous(memory_format=torch.channels_last)
    with pytest.raises(RuntimeError, match="out of range"):
        x.hpu(8)


def test_modules_and_sequences(hpu):
    model = torch.nn.Linear(2, 2)
    assert model.hpu() is model
    assert model.weight.is_hpu
    packed = torch.nn.utils.rnn.pack_sequence([torch.ones(3, 1), torch.ones(2, 1)])
    assert not packed.is_hpu
    assert packed.hpu().is_hpu
    assert packed.hpu("cpu").data.device.type == "cpu"


def test_foreach_is_the_default_of_other_optimizers_and_of_clipping(hpu):
    from torch.optim.optimizer import _default_to_fused_or_foreach

    parameters = [torch.nn.Parameter(torch.ones(2, device="hpu"))]
    assert _default_to_fused_or_foreach(parameters, differentiable=False) == (False, True)
    parameters[0].grad = torch.full((2,), 3.0, device="hpu")
    torch.nn.utils.clip_grad_norm_(parameters, 1.0)
    torch.testing.assert_close(parameters[0].grad.norm().cpu(), torch.tensor(1.0))


def test_torch_finds_the_device(hpu):
    assert torch._utils._get_available_device_type() == "hpu"
    assert torch._utils._get_all_device_indices() == list(range(hpu.device_count()))
    assert torch._utils._get_device_index(torch.device("hpu"), optional=True) == 0
    assert torch._utils._get_devices_properties([0]) == [hpu.get_device_properties(0)]


def test_momentary_patches_are_those_that_are_listed(hpu):
    found = [path for path in Path(openhpu.__file__).parent.rglob("*.py") if "mock.patch" in path.read_text()]
    assert found
    for path in found:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("mock.patch.object", "mock.patch.multiple"):
                owner, *rest = map(ast.unparse, node.args)
                names = [rest[0].strip("'")] if rest else [keyword.arg for keyword in node.keywords]
                of_instance = owner in ("self", "store.kernel")
                assert of_instance or all(f"`{owner}.{name}`" in patches.__doc__ for name in names)


def _cond(x):
    return torch.cond(x.sum() > 0, lambda x: x @ x, lambda x: x @ (x + 1), (x,))


def _while_loop(x):
    from torch._higher_order_ops import while_loop

    return while_loop(lambda i, x: i < 2, lambda i, x: (i + 1, (x @ x).to(x.dtype)), (torch.tensor(0), x))[1]


def _map(x):
    from torch._higher_order_ops import map as map_rows

    return map_rows(lambda row, x: x @ row, x, x + 0)


def _scan(x):
    from torch._higher_order_ops import scan

    return scan(lambda carry, row: (carry + row, carry[None] @ row[:, None]), torch.zeros_like(x[0]), x)[1]


def _flex_attention(x):
    from torch.nn.attention.flex_attention import flex_attention

    return flex_attention(*x.expand(3, 1, 2, *x.shape).unbind())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("operation", "grad"),
    [
        (_cond, False),
        (_cond, True),
        (_while_loop, False),
        (_map, False),
        (_map, True),
        (_scan, False),
        (_scan, True),
        (_flex_attention, False),  # which has no backward on the CPU
    ],
)
def test_higher_order_operators_under_autocast(hpu, operation, grad):
    """The dtypes and, to bfloat16's precision, the numbers of the CPU's autocast."""
    results = {}
    for device in ("cpu", "hpu"):
        x = torch.linspace(0.0, 1.0, 256).reshape(16, 16).to(device).requires_grad_(grad)
        torch._dynamo.reset()
        with torch.autocast(device, dtype=torch.bfloat16):
            results[device] = operation(x)
    assert results["hpu"].dtype == results["cpu"].dtype
    assert results["hpu"].is_hpu
    torch.testing.assert_close(results["hpu"].cpu(), results["cpu"], rtol=2e-2, atol=2e-2)


@pytest.mark.filterwarnings("ignore")
def test_flex_attention_casts_its_operands_under_autocast(hpu):
    from torch.nn.attention.flex_attention import flex_attention

    q = torch.randn(1, 2, 8, 16, device="hpu")
    with torch.autocast("hpu", dtype=torch.bfloat16):
        assert flex_attention(q, q, q).dtype == torch.bfloat16
    assert flex_attention(q, q, q).dtype == torch.float32


@pytest.mark.parametrize("own", [False, True])
def test_a_higher_order_operator_that_is_made_later(hpu, own):
    """With CUDA's rule for autocast, or one of its own for hpu."""
    keys = torch._C.DispatchKey

    class Later(torch._ops.HigherOrderOperator):
        def __init__(self):
            super().__init__(f"openhpu_test_later_{own}")

        def __call__(self, x):
            return super().__call__(x)

    later = Later()
    later.py_impl(keys.CompositeExplicitAutograd)(lambda x: x.clone())
    later.fallthrough(keys.AutogradHPU)
    x = torch.ones(2, device="hpu")
    with torch.autocast("hpu", dtype=torch.bfloat16):
        assert later(x).dtype == torch.float32
        later.py_impl(keys.AutocastCUDA)(lambda x: later(x.bfloat16()))
        assert later(x).dtype == torch.bfloat16
        if own:
            later.py_impl(keys.AutocastHPU)(lambda x: (x * 5).half())
            assert later(x).dtype == torch.float16
    assert later(x).dtype == torch.float32


def test_accelerate_spreads_a_model_over_the_current_device_and_the_host(script, tmp_path):
    """A process on a Gaudi has one card. What the caller says about memory stays as it is."""
    package = tmp_path / "accelerate" / "utils"
    package.mkdir(parents=True)
    (tmp_path / "accelerate" / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "modeling.py").write_text(
        "def get_max_memory(max_memory=None):\n"
        "    return max_memory or {0: 10, 1: 20, 2: 30, 'cpu': 40, 'disk': 50}\n"
        "def is_hpu_available():\n"
        "    return True\n"
    )
    code = f"""
        import sys, torch, habana_frameworks.torch
        sys.path.insert(0, {str(tmp_path)!r})
        from accelerate.utils import modeling
        print(modeling.get_max_memory(), modeling.get_max_memory({{1: 7}}))
        with torch.hpu.device(1):
            print(modeling.get_max_memory())
        modeling.is_hpu_available = lambda: False
        print(len(modeling.get_max_memory()))
    """
    first, second, third = script(code).out.splitlines()
    assert first == "{0: 10, 'cpu': 40, 'disk': 50} {1: 7}"
    assert second == "{1: 20, 'cpu': 40, 'disk': 50}"
    assert third == "5"


def test_a_packed_sequence_goes_through_a_recurrent_layer(hpu):
    torch.manual_seed(0)
    layer, x = torch.nn.LSTM(4, 6), torch.randn(5, 3, 4)
    lengths = torch.tensor([5, 3, 2])
    pack = torch.nn.utils.rnn.pack_padded_sequence
    expected, _ = layer(pack(x, lengths))
    found, _ = layer.to("hpu")(pack(x.to("hpu"), lengths))
    assert found.data.is_hpu
    torch.testing.assert_close(found.data.detach().cpu(), expected.data.detach())
