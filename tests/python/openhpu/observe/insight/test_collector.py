"""What the collector keeps of a program that makes ever new graphs: a bounded document, with right totals."""

import json
import os
import threading

import pytest
import torch  # noqa: F401 - before the core

from openhpu.observe.events import Event
from openhpu.observe.insight import collector

SITE = ("train.py", 7)


def compiled(n):
    params = {"recipe": f"recipe {n}", "duration": 1500, "ops": {"add": 2, "mul": 1}}
    return Event("graph_compilation", 1_000_000 * n, None, params)


def ran(n, how="recipe"):
    params = {"recipe_id": f"graph {n}", "operators": 3, "ran": how, "recipe": f"recipe {n}" if how == "recipe" else ""}
    return Event("graph_recorded", 1_000_000 * n, SITE, params)


@pytest.fixture
def found(tmp_path):
    return collector.Collector(tmp_path)


def test_recipes_and_graphs_are_bounded_and_their_totals_are_right(found, monkeypatch):
    monkeypatch.setattr(collector, "_KEPT_GRAPHS", 50)
    monkeypatch.setattr(collector, "_KEPT_RECIPES", 50)
    sizes = []
    for n in range(10_000):
        found._on_compilation(compiled(n))
        found._on_graph(ran(n))
        found._on_graph(ran(0, "node by node"))
        found._phases.new_graph({"file": "train.py", "line": 7})
        if n in (4999, 9999):
            sizes.append(len(json.dumps(found.document(complete=False))))
    document = found.document(complete=False)
    graphs = document["graphs"]
    assert (graphs["recorded"], graphs["as_recipes"], graphs["node_by_node"]) == (20_000, 10_000, 10_000)
    assert graphs["distinct"] == 10_000
    assert len(graphs["seen_once"]) == collector._KEPT_ONCE
    assert [len(document["recipes"]), len(document["timeline"]["compilations_us"])] == [50, collector._KEPT_TIMELINE]
    assert sizes[1] < 1.1 * sizes[0]


def test_of_a_recipe_that_is_made_and_used_again(found):
    for n in (1, 2, 1):
        found._on_compilation(compiled(n))
        found._on_graph(ran(n))
    found._on_compilation(Event("recipe_loaded", 9, None, compiled(2).params))
    found._on_graph(ran(3, "cut"))
    found._on_graph(ran(1))
    first, second = found.document(complete=False)["recipes"]
    assert (first["name"], first["runs"], first["compilations"], first["ms"]) == ("recipe 1", 3, 2, 3.0)
    assert (second["name"], second["runs"], second["compilations"], second["operators"]) == ("recipe 2", 1, 1, 3)
    assert (first["from_disk"], second["from_disk"]) == (False, True)
    graphs = found.document(complete=False)["graphs"]
    assert graphs["cut"] == 1
    assert graphs["seen_once"] == [{"operators": 3, "file": "train.py", "line": 7}]


def test_an_incomplete_document_never_replaces_the_complete_one(found, monkeypatch, tmp_path):
    """Neither one that is written when the process ends, nor one that is written later."""
    found._opened = True
    end = threading.Thread(target=found.write, kwargs={"complete": True}, daemon=True)
    dumps = json.dumps

    def slow_dumps(document):
        if not document["complete"]:
            end.start()
            end.join(0.3)  # it waits for this write
        return dumps(document)

    monkeypatch.setattr(collector.json, "dumps", slow_dumps)

    def complete():
        return json.loads((tmp_path / f"{os.getpid()}.json").read_text())["complete"]

    found.write()
    end.join(60)
    assert complete()
    found.write()
    assert complete()
