"""A sample of every operator through torch.compile, forward and backward, many operators to a compiled function.

As a module (`python -m tests.conformance.compiled PART THREADS`) it is the process that does it. A case is compiled
twice: alone, its graph run operator by operator, which shows what Dynamo and the backend make of it; and in a batch,
whose graphs run as recipes.
"""

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from openhpu import counters
from tests.conformance import batches, forward
from tests.conformance.backward import ends_of
from tests.conformance.batches import Chosen, Ran, Result, moved, policy
from tests.conformance.database import Case, operators
from tests.conformance.execute import DEVICE, Arguments, Outcome, attempt, seed_all, settle, synchronize
from tests.conformance.transfer import Transfer, tensors_of

FORWARD, BACKWARD = FAMILIES = ("compile_forward", "compile_backward")
CALLS = 3  # the first may find what no capture holds, the second captures, the third is the one that counts
TRACED = 2  # samples that are compiled to find one that is a graph as a whole


def cases(families: tuple[str, ...] = FAMILIES) -> list[Case]:
    """Every operator with each of the dtypes that it has; backward where it has gradients."""
    return [case for family in families for case in batches.cases_like(family.replace("compile", "op"), family)]


def together(programs: list[Callable[[Any, str], Any]], device: str) -> Callable[[list[Arguments]], list[Any]]:
    """The function that is compiled: each program with its arguments."""

    def function(given: list[Arguments]) -> list[Any]:
        return [program(arguments, device) for program, arguments in zip(programs, given, strict=True)]

    return function


def finished(function: Any, given: list[Arguments], family: str, device: str) -> list[Any]:
    """Calls the function, and backward for all results at once; what is to be compared for each program."""
    outputs = function(given)
    if family != BACKWARD:
        return outputs
    ends: list[torch.Tensor] = []
    cotangents: list[torch.Tensor] = []
    for value in outputs:
        more = ends_of(value, device)
        ends += more[0]
        cotangents += more[1]
    leaves = [[t for t in tensors_of(arguments) if t.requires_grad] for arguments in given]
    inputs = [t for own in leaves for t in own]
    found = iter(torch.autograd.grad(ends, inputs, cotangents, allow_unused=True))
    return [
        ([t.detach() for t in tensors_of(value)], [next(found) for _ in own])
        for value, own in zip(outputs, leaves, strict=True)
    ]


def choose(case: Case) -> Chosen | Result | str:
    """The first sample whose graph runs as a whole; a failure; or why there is no such sample."""
    op = operators()[case.name]
    why = "no sample"
    traced = 0
    for sample in forward.samples_of(op, case, batches.SAMPLES, requires_grad=case.family == BACKWARD):
        arguments = forward.arguments_of(sample, op)
        if case.family == BACKWARD and not any(t.requires_grad for t in tensors_of(arguments)):
            continue
        program = _processed(forward.calling(op), sample if case.family == BACKWARD else None)
        expected = attempt(_alone(program, case.family), arguments, "cpu", case.seed)
        learned = attempt(_alone(program, case.family), arguments, DEVICE, case.seed)
        before = counters()
        known = attempt(_alone(program, case.family), arguments, DEVICE, case.seed)
        change = moved(before)
        if expected.error is not None:
            why = "an error"
        elif error := learned.error or known.error:
            return batches.failed(str(case), batches.on_hpu_alone(error))
        elif change["ops_fallback"]:
            why = "a CPU fallback"
        elif change["ops_waited"] or change["blocking_reads"]:
            why = "waits for values"
        elif not change["ops_submitted"]:
            why = "nothing runs on the device"
        else:
            content = op.name not in forward.UNINITIALISED
            chosen = Chosen(case, program, arguments, batches.wider(op, case), content, 0, expected)
            found = _traced(chosen)
            traced += 1
            if not isinstance(found, str):
                return found
            why = found
            if traced == TRACED:
                break
    return why


def _processed(program: Callable[[Any, str], Any], sample: Any) -> Callable[[Any, str], Any]:
    """With what the sample says is to be done to its outputs before they are differentiated."""
    if sample is None:
        return program
    process = sample.output_process_fn_grad
    return lambda arguments, device: process(program(arguments, device))


def _alone(program: Callable[[Any, str], Any], family: str) -> Callable[[Arguments, str], Any]:
    return lambda arguments, device: finished(together([program], device), [arguments], family, device)[0]


def _traced(chosen: Chosen) -> Chosen | Result | str:
    """Compiles a case alone: chosen if its graph is whole and right, else a failure or why it is outside."""
    try:
        made = _compiled([chosen])
    except Exception as error:
        return _limit_of_torch(chosen) or batches.failed(str(chosen.case), batches.described(error))
    verdict = batches.compared(chosen, made.ran[0])
    if not verdict["ok"]:
        return _limit_of_torch(chosen) or verdict
    return made.outside or chosen._replace(recorded=made.change["ops_node_by_node"])


def _limit_of_torch(chosen: Chosen) -> str:
    """Why torch.compile can't do this on the CPU either, without any code of this device; empty if it can."""

    def program(arguments: Arguments, device: str) -> Any:
        torch._dynamo.reset()
        function = torch.compile(together([chosen.program], device), backend="aot_eager", fullgraph=True, dynamic=False)
        return finished(function, [arguments], chosen.case.family, device)[0]

    outcome = attempt(program, chosen.arguments, "cpu", chosen.case.seed)
    if outcome.error is not None:
        return f"torch.compile can't on the CPU either: {type(outcome.error).__name__}"
    if chosen.expected.used_random_numbers:
        return ""
    ran = Ran(outcome.value, outcome.arguments, chosen.expected)
    same = batches.compared(chosen, ran, device="cpu")["ok"]
    return "" if same else "torch.compile has another result on the CPU, too"


class Compiled(NamedTuple):
    """What the last call of a compiled function did."""

    ran: list[Ran]
    outside: str  # why not all of the graphs is in clusters
    clusters: int
    change: dict[str, int]  # of the counters
    said: str  # the last warning of a compilation


def _compiled(chosen: list[Chosen]) -> Compiled:
    """Compiles the cases as one function and calls it."""
    from openhpu.capture.torch_compile import FxGraphAnalyzer

    torch._dynamo.reset()
    plain = together([c.program for c in chosen], DEVICE)
    function = torch.compile(plain, backend="hpu_backend", fullgraph=True, dynamic=False)

    def call(function: Any) -> list[Outcome]:
        given = [Transfer(DEVICE)(c.arguments) for c in chosen]
        synchronize(DEVICE)
        seed_all(chosen[0].case.seed)
        values = finished(function, given, chosen[0].case.family, DEVICE)
        synchronize(DEVICE)
        return [Outcome(value, arguments=arguments) for value, arguments in zip(values, given, strict=True)]

    try:
        with warnings.catch_warnings(record=True) as said, FxGraphAnalyzer() as seen:
            warnings.simplefilter("always")
            for _ in range(CALLS):
                before = counters()
                outcomes = call(function)
            change = moved(before)
        # Random numbers follow from the seed and the order of the operators: those of the same program, not compiled.
        random = any(c.expected.used_random_numbers for c in chosen)
        expected = call(plain) if random else outcomes
    finally:
        settle(DEVICE)
    reasons = [f"{name}: {why}" for graph in seen.graphs for name, why in graph.layout.reasons.items()]
    clusters = sum(len(graph.layout.clusters) for graph in seen.graphs)
    outside = "" if clusters else "nothing of the graph runs on the device"
    return Compiled(
        [
            Ran(o.value, o.arguments, e if c.expected.used_random_numbers else c.expected)
            for c, o, e in zip(chosen, outcomes, expected, strict=True)
        ],
        f"runs between clusters: {reasons[0]}" if reasons else outside,
        clusters,
        change,
        next((str(w.message)[-400:] for w in reversed(said) if "compiled" in str(w.message)), ""),
    )


def through_recipes(chosen: list[Chosen]) -> list[Ran] | str:
    """What the compiled batch gave when its graphs ran as recipes, or why they did not."""
    policy("sync")
    try:
        made = _compiled(chosen)
    except Exception as error:
        return batches.described(error)
    finally:
        policy("off")
    change = made.change
    if made.outside:
        return made.outside
    if change["ops_node_by_node"] or not change["ops_in_recipes"] or change["graph_replays"] != made.clusters:
        return f"not compiled: {made.said or change}"
    return made.ran


if __name__ == "__main__":
    batches.serve(choose, through_recipes)
