"""Operators, forward: every sample as function, method, in place, non-contiguous and with out=; and wrong inputs."""

import itertools
from contextlib import nullcontext
from typing import Any

import torch

from tests.conformance.compare import Tolerance
from tests.conformance.database import Case, operators
from tests.conformance.execute import (
    DEVICE,
    Arguments,
    Checks,
    Outcome,
    Program,
    attempt,
    attempt_once,
    check,
    same_error,
    seed_all,
)
from tests.conformance.outputs import out_programs
from tests.conformance.transfer import OnHost

# Results whose contents are whatever the memory held; shape, dtype, strides and device are compared.
UNINITIALISED = {
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
    "resize_",
    "resize_as_",
}
# Their sections or indices are a tensor of the CPU on every device.
SPLITS_BY_HOST_TENSOR = {"tensor_split"}
# What PyTorch's own decorators widen a tolerance for is here the same comparison: one device against another.
_TESTS = {None, "test_compare_cpu", "test_variant_consistency_eager", "test_noncontiguous_samples", "test_out"}


def tolerance(op: Any, dtype: torch.dtype) -> Tolerance:
    """The widest tolerance that the database's decorators ask for with this dtype."""
    atol: float | None = None
    rtol: float | None = None
    for entry in op.decorators or ():
        if getattr(entry, "test_name", None) not in _TESTS:
            continue
        for decorator in getattr(entry, "decorators", [entry]):
            values = getattr(decorator, "d", None)
            if not isinstance(values, dict) or dtype not in values:
                continue
            value: Any = values[dtype]
            # toleranceOverride gives a pair, precisionOverride an absolute tolerance.
            atol = max(atol or 0.0, getattr(value, "atol", value))
            rtol = max(rtol or 0.0, getattr(value, "rtol", 0.0))
    return Tolerance(atol, rtol)


def samples_of(op: Any, case: Case, limit: int | None, requires_grad: bool) -> list[Any]:
    """The samples, made on the CPU from the case's own seed."""
    seed_all(case.seed)
    # `op.sample_inputs` would add a stack walk and a seed per sample.
    samples = op.sample_inputs_func(op, "cpu", case.torch_dtype, requires_grad)
    chosen = list(itertools.islice(samples, limit))
    if case.torch_dtype.is_complex and op.test_conjugated_samples:
        conjugated = op.conjugate_sample_inputs("cpu", case.torch_dtype, requires_grad)
        chosen += itertools.islice(conjugated, limit)
    return chosen


def arguments_of(sample: Any, op: Any) -> Arguments:
    args = sample.args
    if op.name in SPLITS_BY_HOST_TENSOR:
        args = tuple(OnHost(a) if isinstance(a, torch.Tensor) else a for a in args)
    return sample.input, args, sample.kwargs


def calling(function: Any) -> Program:
    """The plain call. A factory that names no device makes its tensor on the default device: here the one tested."""
    factory = getattr(function, "is_factory_function", False)

    def program(arguments: Arguments, device: str) -> Any:
        first, args, kwargs = arguments
        with torch.device(device) if factory and "device" not in kwargs else nullcontext():
            return function(first, *args, **kwargs)

    return program


def in_place(function: Any) -> Program:
    def program(arguments: Arguments, device: str) -> Any:
        result = function(arguments[0], *arguments[1], **arguments[2])
        return result, result is arguments[0]

    return program


def run(case: Case, checks: Checks, part: str) -> None:
    op = operators()[case.name]
    few = part == "ci"
    tol = tolerance(op, case.torch_dtype)
    content = op.name not in UNINITIALISED
    samples = samples_of(op, case, 2 if few else None, requires_grad=False)
    checks.samples = len(samples)
    checks.statistics = 0 if few else 3
    for i, sample in enumerate(samples):
        arguments = arguments_of(sample, op)
        outcome = check(checks, f"sample {i}", calling(op), arguments, tol, content=content)
        _variants(op, checks, i, arguments, tol, content)
        _noncontiguous(op, checks, i, sample, tol, content)
        if op.supports_out and outcome.error is None and not outcome.used_random_numbers:
            for name, program in out_programs(op, outcome.value):
                check(checks, f"sample {i} {name}", program, arguments, tol, content=content, few=True)
            _out_elsewhere(op, checks, i, arguments, outcome)
    if case.dtype == _error_dtype(op):
        _wrong_inputs(op, checks)


def _variants(op: Any, checks: Checks, i: int, arguments: Arguments, tol: Tolerance, content: bool) -> None:
    seen = [op.op]
    for name, function, program in (
        ("method", op.method_variant, calling),
        ("operator", op.operator_variant, calling),
        ("in-place", op.inplace_variant, in_place),
        ("in-place operator", op.inplace_operator_variant, in_place),
    ):
        if function is not None and function not in seen:
            seen.append(function)
            check(checks, f"sample {i} {name}", program(function), arguments, tol, content=content, few=True)


def _noncontiguous(op: Any, checks: Checks, i: int, sample: Any, tol: Tolerance, content: bool) -> None:
    try:
        strided = sample.noncontiguous()
    except Exception:
        return  # torch's helper has no such form of this sample (sparse layouts)
    check(checks, f"sample {i} non-contiguous", calling(op), arguments_of(strided, op), tol, content=content, few=True)


def _out_elsewhere(op: Any, checks: Checks, i: int, arguments: Arguments, outcome: Outcome) -> None:
    """out= on the CPU for operands on the device is an error, as on every PyTorch device."""
    if op.is_factory_function or not isinstance(outcome.value, torch.Tensor) or outcome.value.numel() == 0:
        return
    out = torch.empty_like(outcome.value)
    program: Program = lambda args, device: op(args[0], *args[1], **args[2], out=out)  # noqa: E731
    checks.checked += 1
    actual = attempt(program, arguments, DEVICE)
    if not isinstance(actual.error, (RuntimeError, NotImplementedError)):
        checks.fail(f"sample {i} out on another device", f"no RuntimeError: {actual.described() or 'no error'}")


def _error_dtype(op: Any) -> str | None:
    """Wrong inputs do not depend on the case's dtype: they belong to the first case of the operator."""
    dtypes = sorted(str(d).removeprefix("torch.") for d in op.supported_dtypes(DEVICE))
    if "float32" in dtypes:
        return "float32"
    return dtypes[0] if dtypes else None


def _wrong_inputs(op: Any, checks: Checks) -> None:
    """Inputs that are errors: made for the CPU and moved, and made for the device, where they may mix devices."""
    from openhpu import counters

    if op.error_inputs_func is None:
        return
    seed_all(0)
    reference = []
    for i, entry in enumerate(op.error_inputs_func(op, "cpu")):
        arguments = arguments_of(entry.sample_input, op)
        checks.checked += 1
        expected = attempt(calling(op), arguments, "cpu")
        reference.append(expected)
        difference = same_error(expected, attempt(calling(op), arguments, DEVICE))
        if difference is not None:
            checks.fail(f"error input {i} of cpu", difference)
    entries = list(op.error_inputs_func(op, DEVICE))
    twins = len(entries) == len(reference)
    for i, entry in enumerate(entries):
        checks.checked += 1
        given = entry.sample_input
        before = counters()["operands_moved"]
        actual = attempt_once(calling(op), (given.input, given.args, given.kwargs), DEVICE)
        if actual.error is None and counters()["operands_moved"] > before:
            continue  # lazy mode moves operands that lie on the CPU
        if twins and type(actual.error) is type(reference[i].error):
            continue  # also where both accept what only torch's Python references reject
        if not isinstance(actual.error, entry.error_type):
            wanted = f"{entry.error_type.__name__} ({entry.error_regex})"
            checks.fail(f"error input {i} of {DEVICE}", f"expected {wanted}, got {actual.described() or 'no error'}")
