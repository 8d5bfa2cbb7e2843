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
                assert owner == "self" or all(f"`{owner}.{name}`" in patches.__doc__ for name in names)
