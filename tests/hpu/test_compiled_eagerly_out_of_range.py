"""Indices out of range in HPU graphs and under torch.compile (docs/indices.md)."""

import pytest
import torch

from tests.hpu.support import watched_indices
from tests.hpu.test_compiled_out_of_range import check, forward, step

pytestmark = pytest.mark.filterwarnings("ignore:aten::")


def test_an_hpu_graph_replays_with_padding(counted):
    buffers = []

    def run(*arguments):
        if not buffers:
            fixed = [a.detach().clone().requires_grad_(a.requires_grad) for a in arguments]
            graph = torch.hpu.HPUGraph()
            for tensor in fixed[::2][:2]:
                tensor.grad = torch.zeros_like(tensor)
            with torch.hpu.graph(graph):
                results = step(*fixed)
            buffers.extend([graph, fixed, results])
        graph, fixed, results = buffers
        with torch.no_grad():
            for own, given in zip(fixed, arguments, strict=True):
                own.copy_(given)
            for own in (fixed[0], fixed[2]):
                own.grad.zero_()
        graph.replay()
        with torch.no_grad():
            arguments[1].copy_(fixed[1])
            for own, given in ((fixed[0], arguments[0]), (fixed[2], arguments[2])):
                given.grad = own.grad.clone()
        return results

    check(run, calls=2)
    with counted() as work, watched_indices() as watched:
        check(run, calls=2)
    assert work["recipe_hits"] == work["graph_replays"] == 2
    assert work["ops_node_by_node"] == 0
    assert watched.counted > 0


def test_torch_compile_keeps_them_in_recipes(counted, compiled_graphs):
    compiled = torch.compile(forward, backend="hpu_backend", fullgraph=True)

    def run(*arguments):
        return step(*arguments, forward=compiled)

    check(run, calls=3)
    with counted() as work, watched_indices() as watched:
        check(run, calls=2)
    assert work["recipe_hits"] > 0
    assert work["recipes_compiled"] == 0
    assert watched.counted > 0
    assert watched.events
