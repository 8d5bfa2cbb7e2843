"""Graphs as files."""

import re
import xml.etree.ElementTree as ElementTree

import pytest
import torch

from openhpu.compiler.client import dumps

SHAPE = ((2, 3), (3, 1))


def tensor(slot):
    return ("tensor", slot, torch.float32, *SHAPE, 0, 0)


@pytest.fixture
def graph():
    """y = (x * 2) + x; y.relu_(), on lines of a script."""

    def node(op, args, outputs, line):
        return {"op": op, "args": args, "outputs": outputs, "site": line}

    return {
        "slots": [{"kind": "input", "nbytes": 24}, {"kind": "fresh", "nbytes": 24}, {"kind": "fresh", "nbytes": 24}],
        "nodes": [
            node(
                "aten::mul.Tensor",
                [tensor(0), ("cpu_scalar", 0, torch.float64, True)],
                [("fresh", 1, torch.float32, *SHAPE, 0)],
                1,
            ),
            node("aten::add.Tensor", [tensor(1), tensor(0), ("const", 1)], [("fresh", 2, torch.float32, *SHAPE, 0)], 2),
            node("aten::relu_", [tensor(2)], [("argument", 0)], 2),
        ],
        "live": [2],
        "scalars": [2.0],
        "variable": [False],
        "threads": 1,
        "sites": {1: 'a"b.py:1', 2: "script.py:2"},
    }


def test_nothing_unless_asked_for(graph, environment, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for mode in ("", "eager", "compile_fx"):
        environment(PT_HPU_GRAPH_DUMP_MODE=mode)
        assert dumps.write(graph) == []
    assert not list(tmp_path.iterdir())


def test_all_forms(graph, environment, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    environment(GRAPH_VISUALIZATION="1")
    program, drawing, text = dumps.write(graph)
    assert program.parent.name == ".graph_dumps"
    names = {}
    exec(program.read_text(), names)
    x = torch.tensor([[1.0, -2, 3], [4, 5, -6]])
    torch.testing.assert_close(names["recipe"](x)[0], torch.relu(3 * x))
    svg = ElementTree.fromstring(drawing.read_text())
    tags = [element.tag.rpartition("}")[2] for element in svg.iter()]
    assert (tags.count("circle"), tags.count("path")) == (3, 2)
    assert "script.py:2" in drawing.read_text()
    nodes = re.findall(r'node \{\n  name: "(\w+)"\n  op: "([\w:.]+)"\n((?:  input: "\w+"\n)*)', text.read_text())
    assert nodes == [
        ("n0_mul_Tensor", "aten::mul.Tensor", ""),
        ("n1_add_Tensor", "aten::add.Tensor", '  input: "n0_mul_Tensor"\n'),
        ("n2_relu_", "aten::relu_", '  input: "n1_add_Tensor"\n'),
    ]
    assert r"a\"b.py:1" in text.read_text()


@pytest.mark.parametrize("form", ["pbtxt", "svg", "graphml"])
def test_the_chosen_form_in_the_chosen_folder(graph, environment, tmp_path, form):
    environment(
        PT_HPU_GRAPH_DUMP_MODE="all", PT_HPU_GRAPH_DUMP_FORMAT=form, PT_HPU_GRAPH_DUMP_PREFIX=str(tmp_path / "deep/er")
    )
    first, second = dumps.write(graph), dumps.write(graph)
    assert {path.suffix for path in first} == {".py", f".{form}"}
    assert not set(first) & set(second)
    if form == "graphml":
        edges = [e for e in ElementTree.parse(first[1]).iter() if e.tag.endswith("edge")]
        assert len(edges) == 2


def test_a_folder_that_cannot_be_written_is_told_once(graph, environment, tmp_path, monkeypatch):
    monkeypatch.setattr(dumps, "_failed", False)
    (tmp_path / "file").write_text("")
    environment(GRAPH_VISUALIZATION="1", PT_HPU_GRAPH_DUMP_PREFIX=str(tmp_path / "file"))
    with pytest.warns(RuntimeWarning, match="set PT_HPU_GRAPH_DUMP_PREFIX"):
        dumps.write(graph)
    assert dumps.write(graph) == []


@pytest.mark.parametrize("end", ["torch.hpu.synchronize()", "raise SystemExit"])
@pytest.mark.parametrize(
    ("mode", "step"),
    [("0", "torch.compile(lambda x: (x + 1).relu(), backend='hpu_backend')"), ("1", "lambda x: (x + 1).relu()")],
)
def test_files_are_there_after_a_synchronisation_and_at_the_end(mode, step, end, script, tmp_path):
    """As those of a Gaudi's graphs, which are compiled before they run."""
    code = f"""
        import torch
        from pathlib import Path
        import habana_frameworks.torch.core as htcore
        step = {step}
        for size in (4, 5):  # the second one is sent to the compiler a moment after its step
            x = torch.ones(size).to("hpu")
            for _ in range(4):
                y = step(x)
                htcore.mark_step()
        {end}
        print(len(list(Path(".graph_dumps").glob("*-PreGraph.pbtxt"))))
        """
    done = script(code, PT_HPU_LAZY_MODE=mode, GRAPH_VISUALIZATION="1")
    assert "synchronize" not in end or done.out == "2"
    folder = tmp_path / ".graph_dumps"
    assert len(list(folder.glob("*-PreGraph.pbtxt"))) == 2
    assert "torch.ops.aten.relu" in (folder / "graph_0000.py").read_text()
    assert mode == "0" or "<string>:5" in (folder / "graph_0000-PreGraph.pbtxt").read_text()


def test_ranks_have_files_of_their_own(graph, environment, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for rank in "01":
        environment(GRAPH_VISUALIZATION="1")
        monkeypatch.setenv("RANK", rank)
        assert all(f"-rank{rank}" in path.name for path in dumps.write(graph))
    assert len(list((tmp_path / ".graph_dumps").glob("*-PreGraph.pbtxt"))) == 2
