"""The demo says first what it does and how long it takes, and its lines fit a terminal."""

import argparse
import contextlib

from examples import demo

COUNTERS = {
    "ops_recorded": 123_456_789, "ops_in_recipes": 123_456_780, "ops_submitted": 123_456_789, "ops_waited": 123_456,
    "ops_fallback": 123_456,
}  # fmt: skip
FALLBACKS = {"aten::_an_operator_with_quite_a_long_name_for_a_test_of_lines.and_overload": 123_456}


class Peer(contextlib.AbstractContextManager):
    """Answers as a training does."""

    def __init__(self, model, kind):
        self.kind = kind

    def __exit__(self, *_):
        pass

    def answer_to(self, question, *arguments):
        lazy = self.kind.lazy
        report = {
            "counters": COUNTERS | ({} if lazy else {"ops_recorded": 0}), "fallbacks": FALLBACKS, "recipes": 1234,
            "peak": 2**36, "graphs": 1234 if self.kind.compiled else 0,
        }  # fmt: skip
        return {
            "train": (1.2345, 12.345), "quality": 123.4567, "report": report, "baseline": 123.456,
            "wait": None, "write": "text " * 60,
        }[question]  # fmt: skip


class Budget:
    def planned(self, *_): ...

    def progress(self, *_): ...

    def done(self, *_): ...


def test_lines_fit(monkeypatch, capsys):
    monkeypatch.setattr(demo, "Peer", Peer)
    args = argparse.Namespace(epochs=12, stretches=8, steps=50)
    demo.introduce(args)
    assert demo.demo(args, Budget()) == 1  # the losses of these are none of a model that learned
    said = capsys.readouterr()
    assert said.out.startswith("This demo trains two models") and demo.DURATION in " ".join(said.out.split())
    assert "123,456 fallbacks" in said.out and "fallback: aten::_an" in said.out and "it writes" in said.out
    lines = [line for line in said.out.splitlines() + said.err.replace("\r", "\n").splitlines() if len(line) > 100]
    assert lines == []
