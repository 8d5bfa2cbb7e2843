"""Phases: seconds of each for itself, and the one that failed or goes on."""

import pytest

from openhpu.compiler import compile_phases as module
from openhpu.compiler.compile_phases import Phases


@pytest.fixture
def clock(monkeypatch):
    """`clock(n)`: n seconds pass."""
    now = [0.0]
    monkeypatch.setattr(module.time, "perf_counter", lambda: now[0])

    def passes(seconds):
        now[0] += seconds

    return passes


def test_an_inner_phase_counts_for_itself_alone(clock):
    phases, told = Phases(), []
    phases.told = told.append
    clock(1)
    for _ in range(2):
        with phases.phase("outer"):
            clock(2)
            with phases.phase("inner"):
                clock(4)
            clock(8)
        clock(16)
    assert phases.taken() == {"outer": 20, "inner": 8}
    assert phases.taken() == {}
    assert told == ["outer", "inner", "outer"] * 2


def test_the_innermost_phase_that_failed_is_named(clock):
    phases = Phases()
    with pytest.raises(ValueError, match="why") as caught, phases.phase("outer"), phases.phase("inner"):
        clock(3)
        raise ValueError("why")
    assert caught.value.phase == "inner"
    assert phases.taken() == {"outer": 0, "inner": 3}
    with phases.phase("next"):
        clock(1)
    assert phases.taken() == {"next": 1}
