"""What a terminal shows of a wait for the compiler."""

import io

import pytest

from openhpu import _C
from openhpu.compiler.client import waits

WAIT = {
    "wait": 1,
    "operators": 140,
    "graphs": 1,
    "seconds": 3.2,
    "site": ("/a/train.py", 96),
    "over": False,
    "given_up": False,
}


class Terminal(io.StringIO):
    def isatty(self):
        return True


def shown(monkeypatch, notices, stream):
    """What the thread writes that tells of these, one after another."""
    left = iter([*notices, None])
    monkeypatch.setattr(_C, "next_wait_notice", lambda after: next(left))
    monkeypatch.setattr("sys.stderr", stream)
    waits.Teller().join()
    assert next(left, "all were asked for") == "all were asked for"
    return None if stream.closed else stream.getvalue()


def test_a_wait_is_told_of_and_then_the_line_is_cleared(monkeypatch):
    later = {**WAIT, "seconds": 10.1, "graphs": 2}
    text = shown(monkeypatch, [WAIT, later, {**later, "over": True}], Terminal())
    first, second, rest = text.split("\r\x1b[K")
    assert first == "openhpu: 3 s: compiling 140 operators from train.py:96; Ctrl-C ends it"
    assert second == "openhpu: 10 s: compiling 2 graphs, one of 140 operators from train.py:96; Ctrl-C ends it"[:79]
    assert rest == ""


def test_nothing_is_written_where_nobody_looks(monkeypatch):
    assert shown(monkeypatch, [WAIT, {**WAIT, "over": True}], io.StringIO()) == ""


def test_a_wait_that_was_given_up_is_a_warning_that_names_the_graph_and_the_setting(monkeypatch):
    notice = {**WAIT, "seconds": 1805.2, "over": True, "given_up": True}
    with pytest.warns(
        RuntimeWarning, match=r"140 operators, recorded from /a/train.py:96 .* 1805 s, .*COMPILE_DEADLINE"
    ):
        assert shown(monkeypatch, [notice], io.StringIO()) == ""


@pytest.mark.parametrize("site", [None, ("<stdin>", 1)])
def test_a_place_that_is_not_known(site):
    assert waits.text({**WAIT, "site": site}).endswith("140 operators" if site is None else "from <stdin>:1")


def test_a_stream_that_was_closed_ends_nothing(monkeypatch):
    stream = Terminal()
    stream.close()
    assert shown(monkeypatch, [WAIT, {**WAIT, "over": True}], stream) is None
