"""The old database of modules and losses, `torch.testing._internal.common_nn`: each on the CPU and on hpu, forward,
backward and backward of backward, by its own `test_cuda`, with hpu in cuda's place."""

import copy
import importlib.util
import re
import sys
import types
from pathlib import Path

import pytest
import torch
from torch.testing._internal.common_utils import freeze_rng_state

_NAMES = (
    (r"\bTEST_CUDA\b", "True"), (r"\.cuda\(", ".hpu("), (r"torch\.cuda\.", "torch.hpu."), (r"'cuda'", "'hpu'"),
)  # fmt: skip


def translated():
    """The module with other names."""
    spec = importlib.util.find_spec("torch.testing._internal.common_nn")
    text = Path(spec.origin).read_text()
    text = text.replace("from torch.testing._internal.common_cuda import TEST_CUDA, SM90OrLater", "SM90OrLater = False")
    for pattern, name in _NAMES:
        text = re.sub(pattern, name, text)
    module = types.ModuleType("hpu_common_nn")
    module.__dict__["TEST_CUDNN"] = False
    sys.modules[module.__name__] = module
    exec(compile(text, "hpu_common_nn.py", "exec"), module.__dict__)
    module.to_gpu = to_hpu
    return module


def to_hpu(given, type_map=None):
    """What `to_gpu` of the same tools does, which names cuda."""
    if isinstance(given, torch.Tensor):
        moved = given.detach().to("hpu", (type_map or {}).get(given.dtype, given.dtype), copy=True)
        return moved.requires_grad_(given.requires_grad)
    if isinstance(given, list | tuple):
        return type(given)(to_hpu(one, type_map) for one in given)
    return copy.deepcopy(given)


common_nn = translated()


class Case(common_nn.NNTestCase):  # type: ignore[name-defined]
    """How a module is called, as the database wants it to be."""

    def runTest(self):
        """Nothing by itself."""

    def assertEqual(self, *args, **kwargs):
        """Double on the CPU is compared with float on the device."""
        super().assertEqual(*args, **{"exact_dtype": False} | kwargs)

    def _forward(self, module, input):
        with freeze_rng_state():
            return module(*input) if isinstance(input, tuple) else module(input)

    def _backward(self, module, input, output, grad_output, create_graph=False):
        output.backward(grad_output, retain_graph=True, create_graph=create_graph)
        return tuple(i.grad for i in input) if isinstance(input, tuple) else input.grad

    def _forward_criterion(self, criterion, input, target, extra_args=None):
        given = input if isinstance(input, tuple) else (input,)
        return criterion(*given, target, *(extra_args or ()))

    def _backward_criterion(self, criterion, input, output, target, gradOutput=None, extra_args=None):
        given = input if isinstance(input, tuple) else (input,)
        for one in given:
            if one.grad is not None:
                one.grad.zero_()
        output.backward(torch.ones_like(output) if gradOutput is None else gradOutput, retain_graph=True)
        return tuple(one.grad for one in given) if isinstance(input, tuple) else input.grad

    def _zero_grad_parameters(self, module):
        for p in module.parameters():
            if p.grad is not None:
                with torch.no_grad():
                    p.grad.zero_()
                p.grad.detach_()

    def _get_parameters(self, module):
        parameters = [p for p in module.parameters() if p.requires_grad]
        for p in parameters:
            if p.grad is None:
                p.grad = torch.zeros_like(p)
        return parameters, [p.grad for p in parameters]


def named(rows, make):
    found = {}
    for row in rows:
        row = dict(row)
        name = row.pop("module_name", None)
        if "constructor" not in row and name:
            row["constructor"] = getattr(torch.nn, name)
        if "constructor" not in row:
            continue
        test = make(**row)
        found.setdefault(test.get_name().removeprefix("test_"), test)
    return found


MODULES = named(common_nn.module_tests + common_nn.get_new_module_tests(), common_nn.NewModuleTest)
LOSSES = named(common_nn.criterion_tests, common_nn.CriterionTest)


@pytest.mark.parametrize("name", MODULES)
def test_module(name):
    torch.manual_seed(0)
    MODULES[name].test_cuda(Case())


@pytest.mark.parametrize("name", LOSSES)
def test_loss(name):
    torch.manual_seed(0)
    LOSSES[name].test_cuda(Case(), dtype=torch.float, extra_args=LOSSES[name].extra_args)
