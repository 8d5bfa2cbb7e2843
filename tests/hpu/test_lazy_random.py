"""Random numbers of lazy graphs: those of eager mode, drawn when the operator is recorded."""

import os
from pathlib import Path

import torch

import habana_frameworks.torch.core as htcore

from .test_rng import DRAWS, LOOKING, NOT_NATIVE

ROOT = Path(__file__).parents[2]


def draw_all(mark_step):
    """Every random operator three times, after one seed; `mark_step` is called between some."""
    for name in sorted(DRAWS):
        DRAWS[name]()  # metadata becomes known
    torch.manual_seed(11)
    drawn = {}
    for number, name in enumerate(sorted(DRAWS)):
        drawn[name] = [DRAWS[name]() for _ in range(3)]
        if number % 7 == 3:
            mark_step()
    return {name: [t.cpu() for t in tensors] for name, tensors in drawn.items()}


def test_draws_are_those_of_eager_mode(script, counted, tmp_path):
    code = """
        import sys, torch
        from tests.hpu.test_lazy_random import draw_all
        import openhpu
        torch.save(draw_all(lambda: None), "drawn.pt")
        print(openhpu.counters()["ops_recorded"])
    """
    path = os.pathsep.join([*(str(Path(p).resolve()) for p in os.environ.get("PYTHONPATH", "").split(":")), str(ROOT)])
    assert script(code, PYTHONPATH=path, PT_HPU_LAZY_MODE="0", warnings="default").out == "0"
    expected = torch.load(tmp_path / "drawn.pt")
    draw_all(lambda: None)
    with counted() as work:
        actual = draw_all(htcore.mark_step)
    assert work["ops_recorded"] > 3 * (len(DRAWS) - len(LOOKING) - len(NOT_NATIVE))
    assert work["ops_node_by_node"] == work["ops_recorded"]
    assert actual.keys() == expected.keys()
    for name, tensors in expected.items():
        for a, b in zip(actual[name], tensors, strict=True):
            torch.testing.assert_close(a, b, rtol=0, atol=0, equal_nan=True, msg=name)
            assert name == "randperm" or tensors[0].numel() < 4 or not torch.equal(tensors[0], tensors[1]), name


def test_a_seed_set_between_record_and_step_changes_nothing_recorded_before(one_graph):
    torch.manual_seed(1)
    expected = torch.rand(16, device="hpu").cpu()

    def program():
        torch.manual_seed(1)
        x = torch.rand(16, device="hpu")
        torch.manual_seed(2)
        return x

    assert torch.equal(one_graph(program).cpu(), expected)


def test_the_generator_s_state_can_be_taken_and_put_back_within_a_step(one_graph):
    def program():
        state = torch.hpu.get_rng_state()
        first = torch.randn(16, device="hpu")
        torch.hpu.set_rng_state(state)
        return first, torch.randn(16, device="hpu"), torch.randn(16, device="hpu")

    first, second, third = (t.cpu() for t in one_graph(program))
    assert torch.equal(first, second) and not torch.equal(first, third)
