"""Samples of every operator through compiled recipes of lazy mode, many operators to a recipe.

As a module (`python -m tests.conformance.recipes PART THREADS`) it is the process that does it.
"""

import warnings

from openhpu import counters
from tests.conformance import batches, forward
from tests.conformance.batches import Chosen, Ran, Result, moved, policy
from tests.conformance.database import Case, operators
from tests.conformance.execute import DEVICE, attempt, seed_all, synchronize
from tests.conformance.transfer import Transfer

FAMILY = "recipe"


def cases(families: tuple[str, ...] = (FAMILY,)) -> list[Case]:
    """Every operator with each of the dtypes that it has."""
    return batches.cases_like("op_forward", FAMILY)


def choose(case: Case) -> Chosen | Result | str:
    """The first sample that is recorded without ending the graph, a failure, or why there is none."""
    op = operators()[case.name]
    why = "no sample"
    for sample in forward.samples_of(op, case, batches.SAMPLES, requires_grad=False):
        arguments = forward.arguments_of(sample, op)
        program = forward.calling(op)
        expected = attempt(program, arguments, "cpu", case.seed)
        learned = attempt(program, arguments, DEVICE, case.seed)
        if expected.error is not None:
            why = "an error"
            continue
        if learned.error is not None:
            return batches.failed(str(case), batches.on_hpu_alone(learned.error))
        given = Transfer(DEVICE)(arguments)
        synchronize(DEVICE)
        seed_all(case.seed)
        before = counters()
        program(given, DEVICE)
        change = moved(before)
        synchronize(DEVICE)
        if change["ops_fallback"]:
            why = "a CPU fallback"
        elif change["ops_waited"] or change["graphs_flushed"]:
            why = "waits for values"
        elif change["ops_submitted"]:
            why = "an operand on the host"
        elif not change["ops_recorded"]:
            why = "nothing runs on the device"
        else:
            if expected.used_random_numbers:
                expected = learned
            content = op.name not in forward.UNINITIALISED
            tolerance = batches.wider(op, case)
            return Chosen(case, program, arguments, tolerance, content, change["ops_recorded"], expected)
    return why


def through_a_recipe(chosen: list[Chosen]) -> list[Ran] | str:
    """Records all samples as one graph; what its recipe gave, or why there is no recipe."""
    given = [Transfer(DEVICE)(c.arguments) for c in chosen]
    synchronize(DEVICE)
    policy("sync")
    before = counters()
    values = []
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for c, arguments in zip(chosen, given, strict=True):
                seed_all(c.case.seed)
                values.append(c.program(arguments, DEVICE))
            synchronize(DEVICE)
    except Exception as error:
        return batches.described(error)
    finally:
        policy("off")
    change = moved(before)
    if change["graphs_flushed"] != 1 or change["ops_in_recipes"] != change["ops_recorded"]:
        texts = [str(w.message) for w in said if "compiled" in str(w.message)]
        return f"not compiled: {(texts or ['several graphs'])[-1][-400:]}"
    return [Ran(v, arguments, c.expected) for c, arguments, v in zip(chosen, given, values, strict=True)]


if __name__ == "__main__":
    batches.serve(choose, through_a_recipe)
