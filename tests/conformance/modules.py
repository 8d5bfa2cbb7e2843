"""Modules of torch.nn: forward and backward in training and evaluation, initialised on the CPU and moved."""

import copy
import itertools
from typing import Any

import torch

from tests.conformance.backward import gradients
from tests.conformance.compare import Tolerance
from tests.conformance.database import Case, modules
from tests.conformance.execute import Arguments, Checks, Program, check, seed_all
from tests.conformance.transfer import tensors_of

# In bfloat16 PyTorch compares no modules between devices. Its recurrent ones multiply the whole sequence at once on the
# CPU and step by step elsewhere, so that gradients are sums of other rounded terms.
_TOLERANCES = {torch.bfloat16: Tolerance(of_largest=1.6e-2)}


def _build(module_input: Any, module_class: Any, dtype: torch.dtype, training: bool) -> Any:
    """The module on the CPU, with the same initial numbers each time."""
    seed_all(3)
    inputs = module_input.constructor_input
    return module_class(*inputs.args, **inputs.kwargs).to(dtype=dtype).train(training)


def _state(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    return {k: v.detach() for k, v in module.state_dict().items() if isinstance(v, torch.Tensor)}


def _program(built: Any) -> Program:
    def program(arguments: Arguments, device: str) -> Any:
        module = copy.deepcopy(built).to(device)
        _, args, kwargs = arguments
        outputs = module(*args, **kwargs)
        leaves = [p for p in module.parameters() if p.requires_grad]
        leaves += [t for t in tensors_of((args, kwargs)) if t.requires_grad]
        found = None
        if leaves and any(t.requires_grad for t in tensors_of(outputs)):
            found = gradients(outputs, leaves, device)
        devices = {p.device.type for p in itertools.chain(module.parameters(), module.buffers())} - {device}
        values = [t.detach() for t in tensors_of(outputs)]
        return values, found, _state(module), sorted(devices)

    return program


def run(case: Case, checks: Checks, part: str) -> None:
    info = modules()[case.name]
    few = part == "ci"
    dtype = case.torch_dtype
    tolerance = _TOLERANCES.get(dtype, Tolerance())
    for training in (True, False):
        seed_all(case.seed)
        inputs = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training)
        checks.statistics = 0 if few else 1
        for i, module_input in enumerate(itertools.islice(inputs, 2 if few else None)):
            if module_input.forward_input is None:
                continue
            checks.samples += 1
            where = f"{'train' if training else 'eval'} {i}"
            # The numbers of the samples after this one must not depend on what runs in between.
            with torch.random.fork_rng(devices=[]):
                try:
                    built = _build(module_input, info.module_cls, dtype, training)
                except Exception as e:
                    checks.fail(where, f"the module cannot be built on the CPU: {type(e).__name__}: {e}")
                    continue
                forward = module_input.forward_input
                arguments: Arguments = (None, forward.args, forward.kwargs)
                check(checks, where, _program(built), arguments, tolerance, strides=False)
