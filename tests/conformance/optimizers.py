"""Optimizers of torch.optim: several steps on the device against the CPU, in every form that the optimizer has."""

from typing import Any

import torch

from tests.conformance.compare import Tolerance
from tests.conformance.database import Case, optimizers
from tests.conformance.execute import DEVICE, Arguments, Checks, Program, check

STEPS = 4
# After a few steps of momentum and division the last bits of a sum in another order have grown.
_TOLERANCES = {
    torch.float32: Tolerance(1e-5, 1e-5),
    torch.float64: Tolerance(1e-10, 1e-10),
    torch.bfloat16: Tolerance(2e-3, 2.4e-2, of_largest=4e-3),
}
# Numbers of the state that PyTorch keeps on the CPU or on the device, depending on the form.
_NUMBERS = frozenset({"step", "mu_product", "mu", "eta"})
_SHAPES = ((4, 3), (5, 4), (3, 3))


def _parameters(info: Any, dtype: torch.dtype) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    shapes = _SHAPES if info.name == "Muon" else (*_SHAPES, (7,), ())
    return [torch.randn(s, generator=generator, dtype=torch.float64).to(dtype) for s in shapes]


def _gradient(p: torch.Tensor, step: int, i: int, sparse: bool, device: str) -> torch.Tensor:
    generator = torch.Generator().manual_seed(100 * step + i)
    dense = torch.randn(p.shape, generator=generator, dtype=torch.float64).to(p.dtype)
    if sparse and dense.dim() == 2:
        rows = torch.tensor([[0, 2]])
        return torch.sparse_coo_tensor(rows, dense[[0, 2]], dense.shape).to(device)
    return dense.to(device)


def _program(info: Any, form: dict[str, Any], sparse: bool) -> Program:
    """Some steps in one form of the optimizer. The CPU takes the plain loop, whose every operation is tested by itself:
    its own fused SGD leaves bfloat16 parameters as they are."""

    def program(arguments: Arguments, device: str) -> Any:
        params = [torch.nn.Parameter(p) for p in arguments[0]]
        plain = {"foreach": False} if "foreach" in info.supported_impls else {}
        optimizer = info.optim_cls(params, **{**arguments[2], **(form if device == DEVICE else plain)})

        def closure() -> torch.Tensor:
            # A quadratic bowl: its value and gradients depend on the parameters, as line searches need it.
            optimizer.zero_grad()
            loss = torch.stack([((p - 0.5) ** 2).sum() for p in params]).sum()
            loss.backward()
            return loss.detach()

        losses = []
        for step in range(STEPS):
            if info.step_requires_closure:
                losses.append(optimizer.step(closure))
                continue
            for i, p in enumerate(params):
                p.grad = _gradient(p, step, i, sparse, device)
            optimizer.step()
        state = [dict(sorted(optimizer.state[p].items())) for p in params if p in optimizer.state]
        tensors = [{k: v for k, v in s.items() if isinstance(v, torch.Tensor) and k not in _NUMBERS} for s in state]
        numbers = [{k: float(v) for k, v in s.items() if k in _NUMBERS} for s in state]
        return [p.detach() for p in params], losses, tensors, numbers

    return program


def _forms(info: Any) -> list[tuple[str, dict[str, Any]]]:
    forms: list[tuple[str, dict[str, Any]]] = [("default", {})]
    forms += [("for-loop", {"foreach": False}), ("foreach", {"foreach": True})] * ("foreach" in info.supported_impls)
    if "fused" in info.supported_impls:
        forms.append(("fused", {"fused": True}))
    if "capturable" in info.supported_impls or info.has_capturable_arg:
        forms.append(("capturable", {"capturable": True}))
    return forms


def run(case: Case, checks: Checks, part: str) -> None:
    info = optimizers()[case.name]
    only_sparse = info.only_supports_sparse_grads
    for name, form in _forms(info):
        for entry in info.optim_inputs_func(device="cpu"):
            if name == "fused" and any(entry.kwargs.get(k) for k in ("foreach", "differentiable")):
                continue
            checks.samples += 1
            params = _parameters(info, case.torch_dtype)
            if only_sparse:
                params = [p for p in params if p.dim() == 2]
            arguments: Arguments = (params, (), dict(entry.kwargs))
            program = _program(info, form, only_sparse)
            check(checks, f"{name} {entry.desc}", program, arguments, _TOLERANCES[case.torch_dtype], strides=False)
