"""Operators, backward: the gradients of one fixed random cotangent, as a function and in place."""

from typing import Any

import torch

from tests.conformance.compare import Tolerance
from tests.conformance.database import Case, operators
from tests.conformance.execute import Arguments, Checks, Program, check
from tests.conformance.forward import arguments_of, samples_of, tolerance
from tests.conformance.transfer import tensors_of


def cotangent(like: torch.Tensor, seed: int, device: str) -> torch.Tensor:
    """The same numbers on every device: drawn on the CPU."""
    generator = torch.Generator().manual_seed(seed)
    if like.dtype.is_complex:
        parts = torch.randn((*like.shape, 2), generator=generator, dtype=torch.float64)
        drawn = torch.view_as_complex(parts)
    else:
        drawn = torch.randn(like.shape, generator=generator, dtype=torch.float64)
    return drawn.to(like.dtype).to(device)


def ends_of(outputs: Any, device: str) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """All differentiable outputs, and for each its fixed cotangent."""
    ends = [t for t in tensors_of(outputs) if t.requires_grad]
    if not ends:
        raise RuntimeError("no output requires a gradient")
    strided = [t if t.layout is torch.strided else t.to_dense() for t in ends]
    return strided, [cotangent(t, i, device) for i, t in enumerate(strided)]


def gradients(outputs: Any, leaves: list[torch.Tensor], device: str) -> list[torch.Tensor | None]:
    """The leaves' gradients for fixed cotangents of all differentiable outputs."""
    ends, cotangents = ends_of(outputs, device)
    return list(torch.autograd.grad(ends, leaves, cotangents, allow_unused=True))


def _differentiating(function: Any, process: Any, clone: bool) -> Program:
    def program(arguments: Arguments, device: str) -> Any:
        leaves = [t for t in tensors_of(arguments) if t.requires_grad]
        first, args, kwargs = arguments
        if clone:
            first = first.clone()
        outputs = function(first, *args, **kwargs)
        found = gradients(process(outputs), leaves, device)
        return [t.detach() for t in tensors_of(outputs)], found

    return program


def run(case: Case, checks: Checks, part: str) -> None:
    op = operators()[case.name]
    few = part == "ci"
    tol: Tolerance = tolerance(op, case.torch_dtype)
    samples = samples_of(op, case, 2 if few else None, requires_grad=True)
    checks.samples = len(samples)
    checks.statistics = 0 if few else 1
    for i, sample in enumerate(samples):
        arguments = arguments_of(sample, op)
        if not any(t.requires_grad for t in tensors_of(arguments)):
            continue
        process = sample.output_process_fn_grad
        program = _differentiating(op, process, clone=False)
        check(checks, f"sample {i}", program, arguments, tol, strides=False)
        if op.inplace_variant is not None and op.supports_inplace_autograd and not sample.broadcasts_input:
            program = _differentiating(op.inplace_variant, process, clone=True)
            check(checks, f"sample {i} in-place", program, arguments, tol, strides=False, few=True)
