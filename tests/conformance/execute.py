"""Runs one program on the CPU and on the device and compares results, arguments, aliasing and errors."""

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from tests.conformance import distribution
from tests.conformance.compare import Demand, Mismatch, Tolerance, aliasing, compare
from tests.conformance.transfer import Transfer

DEVICE = "hpu"
# In lazy mode an operator is recorded from its second sight on: programs run twice, and the second run counts.
LAZY = os.environ.get("PT_HPU_LAZY_MODE") == "1"
# The arguments of a sample: input, args, kwargs.
Arguments = tuple[Any, tuple[Any, ...], dict[str, Any]]
# A program takes the arguments and the device's name and returns what is to be compared.
Program = Callable[[Arguments, str], Any]

# In these words PyTorch's kernels refuse a dtype.
REFUSALS = (
    "not implemented for",
    "Expected a long tensor for index",
    "does not support bool input",
    "Expected a floating point or complex tensor as input",
    "input dtype should be either floating point or complex",
    "Integer division with addcdiv is no longer supported",
)


@dataclass
class Outcome:
    value: Any = None
    error: Exception | None = None
    used_random_numbers: bool = False
    arguments: Any = None

    def described(self) -> str:
        return "" if self.error is None else f"{type(self.error).__name__}: {' '.join(str(self.error).split())[:400]}"


@dataclass
class Checks:
    """The failures of one case. A case goes on after a failure, so that one report names them all."""

    limit: int = 4
    failures: list[str] = field(default_factory=list)
    count: int = 0
    checked: int = 0
    samples: int = 0
    statistics: float = float("inf")  # comparisons of random numbers' distributions that are left to be made

    def fail(self, where: str, message: str) -> None:
        self.count += 1
        if len(self.failures) < self.limit:
            self.failures.append(f"{where}: {message}")


def synchronize(device: str) -> None:
    if device == DEVICE:
        torch.get_device_module(DEVICE).synchronize()


def settle(device: str) -> None:
    """Waits for what an erring program has left in the queue; its first error is the one to compare."""
    with contextlib.suppress(Exception):
        synchronize(device)


def seed_all(seed: int) -> None:
    """Seeds both devices. `torch.manual_seed` would queue a call, with its stack, for every device torch knows."""
    torch.default_generator.manual_seed(seed)
    torch.get_device_module(DEVICE).manual_seed(seed)


def attempt(program: Program, arguments: Arguments, device: str, seed: int = 0) -> Outcome:
    """Runs `program` on its own copy of the arguments. An error of the queue belongs to this program."""
    if LAZY and device == DEVICE:
        attempt_once(program, Transfer(device)(arguments), device, seed)
    return attempt_once(program, Transfer(device)(arguments), device, seed)


def attempt_once(program: Program, arguments: Arguments, device: str, seed: int = 0) -> Outcome:
    """Runs `program` on these arguments, wherever they lie."""
    outcome = Outcome(arguments=arguments)
    seed_all(seed)
    before = torch.get_rng_state() if device == "cpu" else None
    try:
        outcome.value = program(outcome.arguments, device)
        synchronize(device)
    except Exception as e:
        outcome.error = e.with_traceback(None)
        settle(device)
    if before is not None:
        outcome.used_random_numbers = not torch.equal(before, torch.get_rng_state())
    return outcome


def lacks_kernel(outcome: Outcome) -> bool:
    """Whether the CPU has no kernel for the dtype, and not the sample is wrong."""
    return any(words in outcome.described() for words in REFUSALS)


def same_error(expected: Outcome, actual: Outcome) -> str | None:
    """None if both programs ended alike, else what differs."""
    if expected.error is None and actual.error is None:
        return None
    if expected.error is None:
        return f"raises only on {DEVICE}: {actual.described()}"
    if actual.error is None and not lacks_kernel(expected):
        return f"raises only on cpu: {expected.described()}"
    if actual.error is not None and type(expected.error) is not type(actual.error):
        return f"cpu raises {expected.described()} but {DEVICE} raises {actual.described()}"
    return None


def check(
    checks: Checks,
    where: str,
    program: Program,
    arguments: Arguments,
    tolerance: Tolerance,
    *,
    content: bool = True,
    strides: bool = True,
    few: bool = False,
) -> Outcome:
    """Compares the program on both devices; returns the CPU's outcome."""
    checks.checked += 1
    expected = attempt(program, arguments, "cpu")
    actual = attempt(program, arguments, DEVICE)
    difference = same_error(expected, actual)
    if difference is not None:
        checks.fail(where, difference)
        return expected
    if expected.error is not None:
        return expected  # and what the device computes where the CPU has no kernel, Gaudi's table is to judge
    random = expected.used_random_numbers
    demand = Demand(Tolerance() if random else tolerance, content=content and not random, strides=strides)
    try:
        compare(expected.value, actual.value, demand)
        wanted, got = aliasing(expected.arguments, expected.value), aliasing(actual.arguments, actual.value)
        if wanted != got:
            raise Mismatch(f"aliasing: expected {wanted}, got {got}")
        compare(expected.arguments, actual.arguments, replace(demand, strides=True, placed=False), "arguments")
        if random:
            few = few or checks.statistics <= 0
            checks.statistics -= not few
            distribution.check(lambda device, seed: attempt(program, arguments, device, seed), few=few)
    except Exception as e:
        kind = "" if isinstance(e, Mismatch) else f"{type(e).__name__}: "
        checks.fail(where, kind + " ".join(str(e).split())[:500])
    return expected
