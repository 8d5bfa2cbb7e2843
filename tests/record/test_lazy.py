"""Lazy mode, HPU graphs and compiled regions: what can be seen of them, and that the recorder changes nothing."""

import json

LAZY = """
import json
import torch
import habana_frameworks.torch.core as htcore
import openhpu_record
from openhpu_record.reading import Recording

CHANGES = {changes}

def train(record):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Dropout(0.5), torch.nn.Linear(8, 4))
    net = net.to("hpu")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    x = torch.linspace(-1, 1, 32).reshape(4, 8).to("hpu")
    graphs = []
    for step in range(4):
        net(x).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        htcore.mark_step()
        graphs.append(step)
    return [one.detach().cpu() for one in net.parameters()]

plain = train(False)
if CHANGES:
    from openhpu_record import recorder
    before = recorder._statistics
    def disturbing(result):  # as a compiler that has other sums beside other results
        if result.dim() == 2 and result.is_floating_point():
            result.mul_(1.0001)
        return before(result)
    recorder._statistics = disturbing
with openhpu_record.record("lazy.zip", steps=[2], after=0.0):
    recorded = train(True)
with Recording("lazy.zip") as found:
    operators = list(found.events("operator"))
    numbers = [result for one in operators for result in one["results"] if "numbers" in result]
    print(json.dumps([
        all(torch.equal(a, b) for a, b in zip(plain, recorded)),
        found.manifest["depth"],
        list(found.events("second_pass"))[0],
        [event["text"] for event in found.events("problem")],
        len(operators),
        len(numbers),
    ]))
"""


def lazy(script, changes=False):
    return json.loads(script(LAZY.replace("{changes}", str(changes)), PT_HPU_LAZY_MODE="1", OPENHPU_COMPILE="off").out)


def test_lazy_mode_computes_the_same_and_a_second_pass_shows_it(script):
    same, depth, second, problems, operators, numbers = lazy(script)
    assert same and problems == []
    assert depth == "operators, with statistics in the graph"
    assert second["outcome"] == "equal" and second["results"] > 4 and second["operators"] == operators
    assert numbers > 10


def test_the_second_pass_finds_statistics_that_change_the_result(script):
    same, _, second, *_ = lazy(script, changes=True)
    assert not same
    assert second["outcome"] == "different" and second["differ"] > 0


BORDERS = """
import json
import torch
import habana_frameworks.torch as ht
import openhpu_record
from openhpu_record.reading import Recording

class Part(torch.nn.Module):
    def forward(self, x):
        return x * 2 + 1

with openhpu_record.record("borders.zip", steps=[0, 1, 2, 3], after=0.0):
    calls = []

    def backend(graph, inputs):
        calls.append(len(graph.graph.nodes))
        return graph.forward

    @torch.compile(backend=backend)
    def compiled(x):
        return x * 3 + 1

    net = Part()
    net.compile(backend=backend)
    whole = torch.compile(torch.nn.Linear(4, 2).to("hpu"), backend=backend)
    x = torch.ones(2, 4).to("hpu")
    whole(net(compiled(x)))
    static = torch.zeros(3).to("hpu")
    graph = ht.hpu.HPUGraph()
    with ht.hpu.graph(graph):
        out = static * 2 + 1
    static.copy_(torch.tensor([1.0, 2.0, 3.0]))
    graph.replay()
    values = out.tolist()
    wrapped = ht.hpu.wrap_in_hpu_graph(torch.nn.Linear(4, 3).to("hpu").eval())
    with torch.no_grad():
        wrapped(x)
        wrapped(x)
with Recording("borders.zip") as found:
    borders = list(found.events("border"))
    print(json.dumps([
        len(calls), values, found.manifest["depth"],
        [(one["what"], one["name"], [t["shape"] for t in one["inputs"]], [t["shape"] for t in one["outputs"]])
         for one in borders],
        borders[3]["inputs"][0]["numbers"]["max"], borders[3]["outputs"][-1]["numbers"]["max"],
        [event["text"] for event in found.events("problem")],
    ]))
"""


def test_graphs_and_compiled_regions_are_recorded_at_their_borders(script):
    compiled, values, depth, borders, given, made, problems = json.loads(script(BORDERS, PT_HPU_LAZY_MODE="0").out)
    assert problems == []
    assert compiled == 3, "with a mode on, PyTorch compiles nothing"
    assert values == [3.0, 5.0, 7.0] and depth == "borders"
    assert [(what, name) for what, name, *_ in borders] == [
        ("compiled", "compiled"),
        ("compiled", "Part"),
        ("compiled", "Linear"),
        ("graph", "HPUGraph"),
        ("graph", "Linear"),
        ("graph", "Linear"),
    ]
    assert borders[-1][2:] == [[[2, 4]], [[2, 3]]]
    assert borders[0][2:] == [[[2, 4]], [[2, 4]]] and borders[2][3] == [[2, 2]]
    assert (given, made) == (3.0, 7.0)
