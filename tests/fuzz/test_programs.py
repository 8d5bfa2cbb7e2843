"""Random programs give the same results on the CPU, on hpu eagerly, recorded node by node, and compiled.

The numbers of programs are those of every change; FUZZ=nightly (`make fuzz`) draws 2,000 and 200 new ones.
"""

import os

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings, strategies as st

from tests.fuzz.programs import NAMES, RECORDED_NAMES, Instruction, run
from tests.fuzz.worker import Worker, described

NIGHTLY = os.environ.get("FUZZ") == "nightly"
NODE_BY_NODE = int(os.environ.get("FUZZ_PROGRAMS", 2000 if NIGHTLY else 100))
RECIPES = int(os.environ.get("FUZZ_RECIPES", 20 if NIGHTLY else 2))
PER_RECIPE = 10 if NIGHTLY else 5

COMMON = {
    "deadline": None,
    "database": None,
    "derandomize": not NIGHTLY,
    "print_blob": True,
    "suppress_health_check": list(HealthCheck),
}


def programs(names, shortest, longest):
    number = st.integers(0, 63)
    return st.lists(st.tuples(st.sampled_from(names), number, number, number), min_size=shortest, max_size=longest)


@pytest.fixture(scope="module")
def worker():
    workers = {}

    def of(mode):
        return workers.setdefault(mode, Worker(mode))

    yield of
    for each in workers.values():
        each.close()


def on_cpu(program, seed, drawn):
    machine = run([Instruction(*i) for i in program], "cpu", seed, drawn)
    return [described(t) for t in machine.tensors], machine.events


def check(expected, actual, where):
    """Tensors by contents, dtype and geometry; events."""
    (tensors, events), (got_tensors, got_events) = expected, actual
    assert got_events == events, where
    assert len(got_tensors) == len(tensors), where
    for number, (a, b) in enumerate(zip(got_tensors, tensors, strict=True)):
        assert a[1:] == b[1:], f"{where}: tensor {number}: geometry"
        assert a[0].dtype == b[0].dtype, f"{where}: tensor {number}: geometry"
        assert torch.equal(a[0], b[0]), f"{where}: tensor {number}: {a[0]} instead of {b[0]}"


def test_node_by_node(worker):
    """Each program alone; and all of them recorded long graphs."""
    totals = {"recorded": 0, "flushed": 0}

    @settings(max_examples=NODE_BY_NODE, **COMMON)
    @given(program=programs(NAMES, 5, 30), seed=st.integers(0, 1000))
    def one_by_one(program, seed):
        node_by_node(worker, program, seed, totals)

    one_by_one()
    assert totals["recorded"] > 10 * NODE_BY_NODE, totals
    assert totals["recorded"] > 3 * totals["flushed"] > 0, totals


def node_by_node(worker, program, seed, totals):
    eager = worker("eager").run([program], seed)
    reference = on_cpu(program, seed, eager.drawn[0])
    check(reference, (eager.tensors[0], eager.events[0]), "eager")
    for times in (1, 2):  # operators met for the first time, then known ones
        lazy = worker("lazy").run([program], seed, times)
        check(reference, (lazy.tensors[0], lazy.events[0]), f"lazy, time {times}")
        assert all(torch.equal(a, b) for a, b in zip(lazy.drawn[0], eager.drawn[0], strict=True)), "random numbers"
    assert lazy.counters["ops_node_by_node"] == lazy.counters["ops_recorded"]
    assert lazy.counters["ops_in_recipes"] == lazy.counters["ops_submitted"] == 0
    if not {"RuntimeError", "IndexError"} & {e for e in reference[1] if isinstance(e, str)}:
        assert lazy.counters["graphs_cut"] == 0  # an operator that was refused is new the next time, too
    assert eager.counters["ops_recorded"] == 0
    totals["recorded"] += lazy.counters["ops_recorded"]
    totals["flushed"] += lazy.counters["graphs_flushed"]


@settings(max_examples=RECIPES, **COMMON)
@given(
    batch=st.lists(programs(RECORDED_NAMES, 3, 16), min_size=PER_RECIPE, max_size=PER_RECIPE), seed=st.integers(0, 1000)
)
def test_compiled(worker, batch, seed):
    """Several programs in one recipe; then the same recipe with other numbers."""
    # An operator that raises an error ends the graph each time; these programs have no other events.
    tried = worker("eager").run(batch, seed)
    batch = [program for program, events in zip(batch, tried.events, strict=True) if not events]
    assume(batch)
    eager = worker("eager").run(batch, seed)
    compiled = worker("compiled").run(batch, seed, times=2)
    for n, program in enumerate(batch):
        reference = on_cpu(program, seed + n, eager.drawn[n])
        check(reference, (eager.tensors[n], eager.events[n]), f"eager, program {n}")
        check(reference, (compiled.tensors[n], compiled.events[n]), f"compiled, program {n}")
    assert compiled.counters["ops_in_recipes"] == compiled.counters["ops_recorded"] > 0
    assert compiled.counters["recipe_hits"] == compiled.counters["graphs_flushed"]
    other = worker("compiled").run(batch, seed + 77)
    eager = worker("eager").run(batch, seed + 77)
    for n in range(len(batch)):
        check((eager.tensors[n], eager.events[n]), (other.tensors[n], other.events[n]), f"again, program {n}")
    assert other.counters["recipes_compiled"] == 0
    assert other.counters["ops_node_by_node"] == 0
