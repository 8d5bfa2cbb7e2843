import pytest
import torch

import habana_frameworks.torch as ht
from openhpu.capture.hpu_graphs.capture import HPUGraph
from openhpu_predict.recording import Recorder


def by_hand(model, x):
    graph = ht.hpu.HPUGraph()
    with ht.hpu.graph(graph):
        model(x)
    return graph.replay


def wrapped(model, x):
    module = ht.hpu.wrap_in_hpu_graph(model)
    module(x)
    return lambda: module(x)


@pytest.mark.parametrize("capture", [by_hand, wrapped])
def test_a_replay_counts_as_the_operators_of_its_capture(capture):
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU()).to("hpu").eval()
    x = torch.ones(4, 8, device="hpu")
    before = dict(vars(HPUGraph))
    recorder = Recorder("hpu")
    with torch.no_grad(), recorder.watching() as recording:
        plain = model(x)
        recorder.end_step()
        replay = capture(model, x)
        recorder.end_step()
        replay()
        recorder.end_step()
        result = replay()
        if result is not None:
            result = result + 1
    assert dict(vars(HPUGraph)) == before
    assert recording.graphs
    first, again = recording.nodes[: recording.steps[0]], recording.nodes[recording.steps[-1] :]
    assert [(node.op, node.layer) for node in again[: len(first)]] == [(node.op, node.layer) for node in first]
    assert again[len(first) - 1].cut == "graph"
    assert not sum(recording.blocks[key].bytes for key in _new(recording))
    if result is not None:  # what follows waits for the graph
        torch.testing.assert_close(result.cpu(), plain.cpu() + 1)
        assert set(again[-1].reads) == set(again[-2].writes)


def _new(recording):
    """Storages that a replay made."""
    last = range(recording.steps[-1], recording.steps[-1] + recording.steps[0])
    return {key for at in last for key in recording.nodes[at].writes if recording.blocks[key].born in last}
