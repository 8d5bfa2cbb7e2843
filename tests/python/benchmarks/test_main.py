"""The command of the benchmarks: what hangs or fails in one is named, and costs no other one."""

import pytest

from benchmarks import parts
from commands.kept import Kept


def test_parts_that_are_done_are_not_measured_again(tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "_kept", Kept("it", "f", tmp_path))
    calls = []

    def measure(x):
        calls.append(x)
        if x == 2 and len(calls) == 2:
            raise RuntimeError("the time is over")
        return [x, float("nan")]

    assert parts.part("one", measure, 1)[0] == 1
    with pytest.raises(RuntimeError):
        parts.part("two", measure, 2)
    monkeypatch.setattr(parts, "_kept", Kept("it", "f", tmp_path))
    assert parts.part("one", measure, 1)[0] == 1
    assert parts.part("two", measure, 2)[0] == 2
    assert calls == [1, 2, 2]
