"""What goes wrong in captures and replays: what is refused, wrong uses, exceptions; the device stays usable."""

import re

import pytest
import torch

from tests.hpu.support import capture, in_threads, line

pytestmark = pytest.mark.usefixtures("usable")
HPUGraph, graph = torch.hpu.HPUGraph, torch.hpu.graph


# What a message begins with, and what is refused.
REFUSED = {
    "aten::item": lambda x: x.sum().item(),
    "aten::copy_ to the host": lambda x: x.cpu(),
    "synchronize": lambda x: torch.hpu.synchronize(),
    "Stream.synchronize": lambda x: torch.hpu.current_stream().synchronize(),
    "aten::nonzero": lambda x: torch.nonzero(x),
    "aten::nonzero|aten::index": lambda x: x[x > 0],
    "aten::resize_": lambda x: x.resize_(50),
    "aten::sub.*CPU fallback": lambda x: x.to(torch.complex64) - 1,
}


@pytest.mark.parametrize("op", REFUSED)
def test_what_a_graph_cannot_hold_is_refused(op):
    x = torch.eye(4, device="hpu")
    y = x.clone()
    g = HPUGraph()
    g.capture_begin()
    y.add_(1)
    with pytest.raises(RuntimeError) as error:
        REFUSED[op](x)
    text = str(error.value)
    assert re.match(op, text, re.DOTALL), text
    assert "is not supported during HPU Graph capturing" in text
    assert "test_graph_errors.py" in text
    assert not torch.hpu.is_current_stream_capturing()
    assert y.tolist() == (torch.eye(4) + 1).tolist()
    with pytest.raises(RuntimeError, match=r"nothing can be replayed: .* is not supported during HPU Graph capturing"):
        g.capture_end()
    assert capture(lambda: x * 2)[1].tolist() == (torch.eye(4) * 2).tolist()


def test_the_line_of_what_is_refused():
    x = torch.ones(2, device="hpu")
    with pytest.raises(RuntimeError, match=f"line {line() + 1}\\b"):
        capture(lambda: print(x))


def test_an_exception_inside(level):
    x = torch.ones(4, device="hpu")
    g = HPUGraph()
    with pytest.raises(ZeroDivisionError), graph(g):
        x += 1
        1 / 0  # noqa: B018
    assert x.tolist() == [2] * 4
    with pytest.raises(RuntimeError, match="nothing has been captured"):
        g.replay()
    with graph(g):
        x += 1
    g.replay()
    assert x.tolist() == [4] * 4


def test_wrong_uses():
    g, other = HPUGraph(), HPUGraph()
    x = torch.ones(2, device="hpu")
    with pytest.raises(RuntimeError, match="no capture has begun"):
        g.capture_end()
    g.capture_begin()
    assert torch.hpu.is_current_stream_capturing()
    y = x + 1
    for begin in (other.capture_begin, graph(other).__enter__):
        with pytest.raises(RuntimeError, match="already in progress"):
            begin()
    with pytest.raises(RuntimeError, match="this HPUGraph is capturing already"):
        g.capture_begin()
    g.capture_end()
    with pytest.raises(RuntimeError, match="holds a captured graph"):
        g.capture_begin()
    other.capture_begin()
    with pytest.raises(RuntimeError, match=r"HPUGraph\.replay is not supported during HPU Graph capturing"):
        g.replay()
    other.reset()
    g.replay()
    assert y.tolist() == [2, 2]


def test_a_replay_before_the_capture():
    g = HPUGraph()
    x = torch.zeros(2, device="hpu")
    with pytest.warns(UserWarning, match="replay did nothing: no capture has begun") as warned:
        before = line()
        g.replay()
        g.replay()
    (warning,) = warned
    assert (warning.filename, warning.lineno) == (__file__, before + 1)
    with graph(g):
        x += 1
    g.replay()
    assert x.tolist() == [2, 2]
    g.reset()
    with pytest.warns(UserWarning, match="replay did nothing"):
        g.replay()


def test_ending_elsewhere():
    x = torch.ones(2, device="hpu")
    g = HPUGraph()
    g.capture_begin()
    x.add_(1)
    elsewhere = pytest.raises(RuntimeError, match="End it on the stream on which it began")
    with torch.hpu.stream(torch.hpu.Stream()), elsewhere:
        g.capture_end()
    g = HPUGraph()
    g.capture_begin()
    with pytest.raises(RuntimeError, match="End it on the thread that began it"):
        in_threads(g.capture_end)
