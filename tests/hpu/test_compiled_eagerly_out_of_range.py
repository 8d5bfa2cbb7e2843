"""Indices out of range in HPU graphs and under torch.compile (docs/indices.md)."""

import pytest

from tests.hpu.argument_tables import graphed
from tests.hpu.support import compiled, watched_indices
from tests.hpu.test_compiled_out_of_range import check, forward, step

pytestmark = pytest.mark.filterwarnings("ignore:aten::")


@pytest.mark.parametrize("way", ["HPU graph", "torch.compile"])
@pytest.mark.usefixtures("compiled_graphs")
def test_graphs_keep_them_in_recipes(way, counted):
    graph = graphed("cached", forward) if way == "HPU graph" else compiled(forward, fullgraph=True)

    def run(*arguments):
        return step(*arguments, forward=graph)

    check(run, calls=3)
    whole = {"recipe_hits": 4, "graph_replays": 4, "recipes_compiled": 0, "ops_node_by_node": 0}  # forward and backward
    with counted(**whole), watched_indices() as watched:
        check(run, calls=2)
    assert watched.counted > 0
    assert watched.events
