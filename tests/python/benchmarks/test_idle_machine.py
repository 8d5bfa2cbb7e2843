"""Numbers are quoted on an idle machine only; of which code, tests/python/commands/test_checkout.py tests."""

import itertools

import pytest

from benchmarks import idle_machine


@pytest.mark.parametrize(
    ("reason", "foreign", "expected"),
    [("", 0.1, ""), ("", 2.0, "other processes took 2.0 s"), ("a file differs", 0.1, "a file differs")],
)
def test_what_stands_against_quoting(monkeypatch, reason, foreign, expected):
    monkeypatch.setattr(idle_machine.checkout, "why_not", lambda root: reason)
    why = idle_machine.why_not(foreign=lambda: foreign)
    assert expected in why
    assert bool(why) == bool(expected)


def test_what_this_process_does_is_not_foreign():
    readings = itertools.chain([(100.0, 5.0), (103.0, 7.5)])
    assert idle_machine.foreign_seconds(lambda: next(readings), 0) == 0.5
