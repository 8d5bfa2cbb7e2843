import pytest
import torch

from openhpu_predict import fake, load
from openhpu_predict.advice import time_text
from openhpu_predict.prediction import price
from openhpu_predict.recording import Recorder

GAUDI2 = load("gaudi2")


def recorded(fn, cuts=()):
    """A step whose operators of these numbers end graphs, as reads do."""
    recorder = Recorder(None)
    with fake(), recorder.watching() as recording:
        fn()
        recorder.end_step()
    for at in cuts:
        recording.nodes[at].cut = "read"
        recording.nodes[at].site = ("train.py", at)
    return recording


def chain(dtype=torch.bfloat16, length=20):
    def step():
        x = torch.ones(1024, 1024, dtype=dtype)
        for _ in range(length):
            x = x @ x
        return x

    return step


@pytest.mark.parametrize(
    "dtype, mode, cuts, sentences",
    [
        (torch.bfloat16, "graph", (), []),
        (torch.float32, "graph", (), ["matrix products in bfloat16"]),
        (torch.bfloat16, "eager", (), ["graphs (lazy mode, torch.compile) save launches"]),
        (torch.bfloat16, "graph", (3, 7), ["without the reads"]),
    ],
)
def test_what_helps(dtype, mode, cuts, sentences):
    found = price(recorded(chain(dtype), cuts), GAUDI2, mode)
    assert len(found.advice) == len(sentences)
    for sentence, begin in zip(found.advice, sentences, strict=True):
        assert sentence.startswith(begin)
        assert f": {time_text(found.seconds)} -> " in sentence


def test_each_line_with_a_read_has_its_cost():
    found = price(recorded(chain(), (3, 7)), GAUDI2)
    assert set(found.cuts) == {("train.py", 3), ("train.py", 7)}
    assert all(cost == pytest.approx(GAUDI2.graph_launch, rel=0.01) for cost in found.cuts.values())
    assert found.cut_seconds == pytest.approx(sum(found.cuts.values()))
    assert f"  1 x train.py:3, {time_text(found.cuts['train.py', 3])}" in str(found)


@pytest.mark.parametrize("seconds, text", [(2.5, "2.50 s"), (0.0025, "2.50 ms"), (2.5e-5, "25 us"), (0.0, "0 us")])
def test_times_have_units(seconds, text):
    assert time_text(seconds) == text
