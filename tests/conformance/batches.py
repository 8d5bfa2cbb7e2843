"""Cases that share a compilation: a compilation takes seconds, so many operators go into one.

`split` is for the suite, the rest for its worker processes (`recipes`, `compiled`, `gaudi`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.utils._pytree import tree_map_only

from commands.answering import say
from openhpu import _C, counters, settings
from tests.conformance import forward
from tests.conformance.compare import Demand, Mismatch, Tolerance, compare
from tests.conformance.database import Case, cases
from tests.conformance.execute import attempt
from tests.conformance.pool import Result, result

DTYPES = ("float32", "bfloat16", "int64")
SIZE = 40
SAMPLES = 6  # looked at to find one that can be compiled


def cases_like(family: str, own: str) -> list[Case]:
    """The cases of a family of the databases with each of DTYPES, as cases of the family `own`."""
    return [Case(own, case.name, case.dtype) for case in cases((family,)) if case.dtype in DTYPES]


def split(names: list[str]) -> list[list[str]]:
    """Cases of one family and dtype together: operators of several dtypes would only make more kinds of kernels."""
    groups: dict[tuple[int, str, str], list[str]] = {}
    for name in sorted(names):
        family, _, dtype = name.split(":")
        groups.setdefault((DTYPES.index(dtype) if dtype in DTYPES else len(DTYPES), dtype, family), []).append(name)
    return [group[i : i + SIZE] for _, group in sorted(groups.items()) for i in range(0, len(group), SIZE)]


class Chosen(NamedTuple):
    """A case with a sample that can be compiled as a whole."""

    case: Case
    program: Callable[[Any, str], Any]
    arguments: Any
    tolerance: Any
    content: bool
    recorded: int  # operators
    expected: Any  # the CPU's outcome; for random operators the device's own, operator by operator
    judge: Callable[[Ran], str | None] | None = None  # says what is wrong with a result, in place of a comparison


class Ran(NamedTuple):
    """What a case gave: its value, and its arguments afterwards."""

    value: Any
    arguments: Any
    expected: Any


def moved(before: dict[str, int]) -> dict[str, int]:
    """How far the counters have gone since `before`."""
    return {name: value - before[name] for name, value in counters().items()}


def policy(name: str) -> None:
    """When graphs are compiled from now on: "sync" or "off"."""
    from openhpu.compiler.client import client

    # The first use of the device in lazy mode, and the first capture in eager mode, set the environment's policy.
    torch.get_device_module("hpu").synchronize()
    client.start_compiling()
    _C.configure_graphs(name, settings.get("HABANA_PGM_LRU_MAX"), 1 << 18)


def wider(op: Any, case: Case) -> Any:
    """The tolerance of a case in compiled code: that rounds less often than one operator after the other."""
    wanted = forward.tolerance(op, case.torch_dtype)
    share = {"bfloat16": 2e-2, "float32": 1e-5}.get(case.dtype, 0.0)
    return Tolerance(wanted.atol, max(wanted.rtol or 0.0, share), of_largest=share)


def failed(case: str, message: str) -> Result:
    return result(case, ok=False, failures=[message], count=1, samples=1, checked=1)


def described(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:400]}"


def on_hpu_alone(error: BaseException) -> str:
    """The failure of a case that the CPU computes."""
    return f"an error on hpu alone: {described(error)}"


def compared(c: Chosen, ran: Ran, device: str = "hpu") -> Result:
    """The verdict over what a case gave on `device`."""
    if c.judge is not None:
        wrong = c.judge(ran)
        return failed(str(c.case), wrong) if wrong else result(str(c.case), samples=1, checked=1, recorded=c.recorded)
    strides = not c.case.family.endswith("backward")
    demand = Demand(c.tolerance, content=c.content, strides=strides, device=device)
    reference = {}
    try:
        try:
            compare(on_host(ran.expected.value), ran.value, demand)
        except Mismatch:
            if not _equals_float32(c, ran, demand):
                raise
            reference = {"reference": "float32"}
        compare(on_host(ran.expected.arguments), ran.arguments, Demand(c.tolerance, placed=False), "arguments")
    except Mismatch as error:
        return failed(str(c.case), " ".join(str(error).split())[:400])
    except Exception as error:
        return failed(str(c.case), described(error))
    return result(str(c.case), samples=1, checked=1, recorded=c.recorded, **reference)


def _equals_float32(c: Chosen, ran: Ran, demand: Any) -> bool:
    """Whether a bfloat16 case gave what the CPU computes in float32, rounded at the end: then it is more precise than
    the CPU's bfloat16. PyTorch's tests of compiled operators take that reference, too (`reference_in_float`)."""
    if c.case.dtype != "bfloat16":
        return False

    def cast(value: Any, before: torch.dtype, after: torch.dtype) -> Any:
        return tree_map_only(torch.Tensor, lambda t: t.to(after) if t.dtype is before else t, value)

    precise = attempt(c.program, cast(c.arguments, torch.bfloat16, torch.float32), "cpu", c.case.seed)
    try:
        compare(cast(precise.value, torch.float32, torch.bfloat16), ran.value, demand)
    except Mismatch:
        return False
    return precise.error is None


def on_host(value: Any) -> Any:
    """The expectation as the comparison wants it: tensors of the CPU, with the same strides."""

    def one(t: torch.Tensor) -> torch.Tensor:
        moves = t.device.type == "hpu"
        return torch.empty_strided(t.size(), t.stride(), dtype=t.dtype).copy_(t.detach()) if moves else t

    return tree_map_only(torch.Tensor, one, value)


def in_halves(chosen: list[Chosen], run: Callable[[list[Chosen]], list[Ran] | str]) -> list[Result]:
    """The results of `run`, which says why where it can't compile all of them: then halves of them are tried."""
    ran = run(chosen)
    if not isinstance(ran, str):
        return [compared(c, r) for c, r in zip(chosen, ran, strict=True)]
    if len(chosen) == 1:
        return [failed(str(chosen[0].case), ran)]
    middle = len(chosen) // 2
    return in_halves(chosen[:middle], run) + in_halves(chosen[middle:], run)


def serve(choose: Callable[[Case], Chosen | Result | str], run: Callable[[list[Chosen]], list[Ran] | str]) -> None:
    """The process: `choose` gives a case's sample, its result at once, or why it has none; `run` compiles a batch.

    It says which case it chooses a sample of, and that it is at all of them ("") when it compiles.
    """
    from tests.conformance import worker

    def answer(cases: tuple[str, ...]) -> list[Result]:
        start = time.perf_counter()
        chosen: list[Chosen] = []
        results: list[Result] = []
        policy("off")
        for name in cases:
            say({"at": name})
            try:
                found = choose(Case.parse(name))
            except Exception as error:
                found = failed(name, described(error))
            if isinstance(found, Chosen):
                chosen.append(found)
            else:
                results.append(result(name, outside=found) if isinstance(found, str) else found)
        if chosen:
            say({"at": str(chosen[0].case) if len(chosen) == 1 else ""})
            results += in_halves(chosen, run)
        for r in results:
            r["seconds"] = round((time.perf_counter() - start) / len(results), 3)
        return results

    worker.serve(answer)
