import dataclasses

import pytest
import torch

from openhpu_predict import fake, load, predict, record
from openhpu_predict.warmup import warmup

GAUDI2 = load("gaudi2")


@pytest.mark.parametrize("sizes, graphs", [([8, 8, 8], 1), ([8, 16, 8], 2), ([8, 16, 32], 3)])
def test_graphs_of_other_sizes_are_compiled(sizes, graphs):
    with fake():
        inputs = iter([torch.empty(size) for size in sizes])
    recording = record(lambda: (next(inputs) * 2).exp(), steps=3)
    found = warmup(recording, GAUDI2)
    assert (found.graphs, found.operators, found.counted) == (graphs, 2 * graphs, False)
    assert found.seconds == pytest.approx(2 * graphs * GAUDI2.compile_per_operator)
    recording.graphs_new = 5  # as the device's cache has counted
    assert warmup(recording, GAUDI2).operators == 10
    assert "5 graphs, as the" in str(warmup(recording, GAUDI2))


def test_a_user_sets_the_time_of_an_operator():
    with fake():
        x = torch.empty(8)
    slow = dataclasses.replace(GAUDI2, compile_per_operator=2.0)
    found = predict(lambda: (x * 2).exp(), device=slow)
    assert found.warmup.seconds == 4
    assert "compilation: 1 graphs" in str(found)
    assert predict(lambda: x * 2, device=slow, mode="eager").warmup is None
