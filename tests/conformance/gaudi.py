"""Every cell of Gaudi's table of operators and dtypes: it runs on the device without a fallback, and is right.

Right is what the CPU computes in a wider dtype, rounded once, or what its kernel for the dtype gives if it has one. As
a module (`python -m tests.conformance.gaudi PART THREADS`) it is the process that runs cells in batches: in recipes of
lazy mode, and through torch.compile.
"""

import functools
import logging
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch._subclasses import FakeTensorMode
from torch.utils._pytree import tree_map, tree_map_only

from openhpu import counters, events
from tests.conformance import batches, compiled, gaudi_cells, recipes
from tests.conformance.batches import Chosen, Ran, Result, moved, on_host
from tests.conformance.compare import Demand, Mismatch, Tolerance, compare
from tests.conformance.database import Case
from tests.conformance.execute import DEVICE, Arguments, Checks, Outcome, attempt, lacks_kernel
from tests.conformance.gaudi_cells import cast
from tests.conformance.transfer import Transfer, tensors_of
from tests.rotating import shards

FLOAT8 = ("float8_e5m2", "float8_e4m3fn")
# Results whose contents are whatever the memory held.
UNINITIALISED = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "_resize_output_")
# Of a dtype's resolution, what a result in it may be off: kernels for small floats round more than once.
_SHARE = {"bfloat16": 2e-2, "float16": 2e-3, "float8_e5m2": 0.25, "float8_e4m3fn": 0.125, "float32": 2e-5}
# Integers that are floats cut off: compiled code rounds the floats less often, and one close to an integer may then lie
# on its other side.
_CUT_OFF = ("torch.lerp", "torch.Tensor.lerp", "torch.Tensor.lerp_")


def tolerance(case: Case) -> Tolerance:
    in_a_graph = case.family in (gaudi_cells.RECIPE, gaudi_cells.COMPILE)
    if in_a_graph and case.name in _CUT_OFF and not case.torch_dtype.is_floating_point:
        return Tolerance(atol=1)
    share = _SHARE.get(case.dtype, 0.0)
    return Tolerance(None, share, of_largest=share / 2)


def wider(case: Case) -> tuple[torch.dtype, ...]:
    """The dtypes whose results may stand for the cell's."""
    if case.torch_dtype.is_floating_point:
        return (torch.float64,)
    # Results that are int64 anyway, indices, are told from wider ones.
    next_one = {"bool": torch.uint8, "int8": torch.int32, "int16": torch.int32, "int32": torch.int64}
    return (next_one.get(case.dtype, torch.float64), torch.float64)


def references(case: Case, program: Callable[..., Any], arguments: Arguments) -> list[Outcome] | str:
    """What counts as right: the CPU's own result, and that in a wider dtype; or why this sample has none."""
    own = attempt(program, arguments, "cpu", case.seed)
    if own.error is not None and not lacks_kernel(own):
        return own.described()
    accepted = [] if own.error is not None else [own]
    for dtype in wider(case):
        if dtype is case.torch_dtype or (accepted and not case.torch_dtype.is_floating_point):
            continue
        widened = cast(arguments, case.torch_dtype, dtype)
        if case.torch_dtype is not torch.int32:
            widened = cast(widened, torch.int32, torch.int64)  # indices
        wide = attempt(program, widened, "cpu", case.seed)
        if wide.error is None:
            rounded = replace(wide, value=_rounded(wide.value, own.value, dtype, case.torch_dtype))
            rounded.arguments = _rounded(wide.arguments, own.arguments, dtype, case.torch_dtype)
            accepted.append(rounded)
            break
    return accepted or own.described()


def _rounded(wide: Any, own: Any, before: torch.dtype, after: torch.dtype) -> Any:
    """Tensors of a wide result in the dtype of the CPU's own result, or, if it has none, in the cell's."""
    twins = iter(tensors_of(own)) if len(tensors_of(own)) == len(tensors_of(wide)) else iter(())

    def one(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            twin = next(twins, None)
            if twin is not None:
                return leaf.to(twin.dtype)
            return leaf.to(after) if leaf.dtype is before else leaf
        return after if leaf is before else leaf

    return tree_map(one, wide)


def difference(case: Case, accepted: list[Outcome], actual: Any, arguments: Any, device: str = "hpu") -> str | None:
    """None if the result is one of the accepted, else how it differs from the last: the one in the wider dtype."""
    content = case.name.rpartition(".")[2] not in UNINITIALISED
    content &= not accepted[0].used_random_numbers
    # A pinned tensor is the host's.
    demand = Demand(tolerance(case), content=content, device=device, placed="pin_memory" not in case.name)
    why = None
    for expected in accepted:
        try:
            compare(_comparable(expected.value), _comparable(actual), demand)
            compare(_comparable(expected.arguments), _comparable(arguments), replace(demand, placed=False), "arguments")
            return None
        except Mismatch as error:
            why = " ".join(str(error).split())[:300]
    return why


def _comparable(value: Any) -> Any:
    """torch.testing does not compare tensors of 8-bit floats: as float32, beside a note of what they were."""

    def one(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor) and str(leaf.dtype).removeprefix("torch.") in FLOAT8:
            return {str(leaf.dtype): leaf.cpu().float() if leaf.device.type == "cpu" else leaf.cpu().float().to("hpu")}
        return leaf

    return tree_map(one, value)


def run(case: Case, checks: Checks, part: str) -> None:
    """The cell, operator by operator, in the process's mode."""
    program = gaudi_cells.program_of(case)
    why = "there is no sample"
    for arguments in gaudi_cells.arguments_of(case):
        accepted = references(case, program, arguments)
        if isinstance(accepted, str):
            why = accepted
            continue
        checks.checked += 1
        checks.samples += 1
        before = counters()
        fell_back = events.fallback_ops()
        actual = attempt(program, arguments, DEVICE, case.seed)
        if actual.error is not None:
            checks.fail("native", actual.described())
        elif moved(before)["ops_fallback"]:
            checks.fail("native", f"falls back: {sorted(set(events.fallback_ops()) - set(fell_back)) or fell_back}")
        elif found := difference(case, accepted, actual.value, actual.arguments):
            checks.fail("native", found)
        elif accepted[0].used_random_numbers:
            again = attempt(program, arguments, DEVICE, case.seed)
            again.value = on_host(again.value)
            again.arguments = on_host(again.arguments)
            if found := difference(case, [again], actual.value, actual.arguments):
                checks.fail("native", f"two runs from one seed differ: {found}")
        if checks.samples == gaudi_cells.SAMPLES:
            return
    if not checks.samples:
        checks.fail("sample", why)


def choose(case: Case) -> Chosen | Result | str:
    """The first sample that a graph can hold, its result if it is wrong operator by operator, or why there is none."""
    program = gaudi_cells.program_of(case)
    # Why a graph can't hold a sample tells more than why the CPU refuses another one.
    why, refused = "", "there is no sample"
    for arguments in gaudi_cells.arguments_of(case):
        accepted = references(case, program, arguments)
        if isinstance(accepted, str):
            refused = accepted
            continue
        attempt(program, arguments, DEVICE, case.seed)
        before = counters()
        known = attempt(program, arguments, DEVICE, case.seed)
        change = batches.moved(before)
        if known.error is not None:
            return batches.failed(str(case), known.described())
        if change["ops_fallback"]:
            return batches.failed(str(case), "a CPU fallback")
        if case.name.startswith("torchvision."):
            why = "the process that compiles does not load torchvision"
        elif change["ops_waited"] or change["blocking_reads"]:
            why = "waits for values"
        elif not change["ops_submitted"] and not change["ops_recorded"]:
            why = "nothing runs on the device"
        elif case.family == gaudi_cells.COMPILE and (limit := _limit_of_torch(program, arguments)):
            why = limit
        else:
            judge = functools.partial(_judge, case, accepted)
            recorded = change["ops_recorded"]
            return batches.Chosen(case, program, arguments, tolerance(case), True, recorded, accepted[0], judge)
    return why or refused


def _limit_of_torch(program: Callable[..., Any], arguments: Arguments) -> str:
    """Why torch.compile traces this for no device: its fake tensors refuse it. Empty if they don't."""
    mode = FakeTensorMode()
    given = tree_map_only(torch.Tensor, mode.from_tensor, Transfer(DEVICE)(arguments))
    logging.disable(logging.ERROR)
    try:
        with mode:
            program(given, DEVICE)
    except Exception as error:
        return f"PyTorch's fake tensors refuse it: {' '.join(str(error).split())[:60]}"
    finally:
        logging.disable(logging.NOTSET)
    return ""


def _judge(case: Case, accepted: list[Outcome], ran: Ran) -> str | None:
    return difference(case, accepted, ran.value, ran.arguments)


def fortieth(cases: list[Case]) -> list[Case]:
    """A fortieth of each family's cases: that of the turn, or that of CONFORMANCE_FORTIETH (0 to 39)."""
    wanted = int(os.environ.get("CONFORMANCE_FORTIETH") or shards.turn()) % 40
    return [case for case in cases if case.seed % 40 == wanted]


if __name__ == "__main__":
    recorded = os.environ.get("PT_HPU_LAZY_MODE") == "1"
    batches.serve(choose, recipes.through_a_recipe if recorded else compiled.through_recipes)
