"""Graphs as files: a Python program that computes the same, and a drawing or a description of the graph.

The thread that sends a graph to the compiler writes them, if GRAPH_VISUALIZATION or PT_HPU_GRAPH_DUMP_MODE is set.
`finish` waits for it.
"""

import itertools
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path

from openhpu import _C, settings
from openhpu.compiler.program.description import Description, NodeDescription, tensors
from openhpu.observe import process_names
from openhpu.settings import folders

_ROW = 22
_LEFT = 260
_LANE = 14
_MARKS = {"pbtxt": "-PreGraph"}  # as Gaudi's graph compiler has it in the name: vLLM's plugin counts graphs by it
_numbers = itertools.count()
_failed = False
_FINISH_S = 60.0


@dataclass(frozen=True)
class DumpedNode:
    """A node of a drawn graph: its operator, its results, its line in the script, and the nodes that it reads."""

    name: str
    op: str
    result: str
    line: str
    reads: tuple[int, ...]


def write(description: Description) -> list[Path]:
    """Write a graph's files, if the environment asks for them; their paths. A folder that cannot be written is told
    once."""
    global _failed
    forms = _forms()
    if not forms or _failed:
        return []
    number = next(_numbers)
    folder = Path(settings.get("PT_HPU_GRAPH_DUMP_PREFIX"))
    written = []
    try:
        for form in forms:
            path = folder / f"graph_{number:04d}{process_names.suffix()}{_MARKS.get(form, '')}.{form}"
            with folders.replacing(path) as file:
                file.write(_WRITERS[form](description))
            written.append(path)
    except OSError as error:
        _failed = True
        warnings.warn(
            f"graphs cannot be written to {folder}: {error.strerror}; set PT_HPU_GRAPH_DUMP_PREFIX to another folder",
            RuntimeWarning,
            stacklevel=2,
        )
    return written


def finish() -> None:
    """Wait, for a minute at most, until the files of all graphs are written that the core wants compiled."""
    if _forms():
        _C.wait_for_compile_requests(_FINISH_S)


def _forms() -> tuple[str, ...]:
    if settings.get("GRAPH_VISUALIZATION"):
        return ("py", "svg", "pbtxt")
    if settings.get("PT_HPU_GRAPH_DUMP_MODE") in ("compile", "all"):
        return ("py", settings.get("PT_HPU_GRAPH_DUMP_FORMAT"))
    return ()


def rows(description: Description) -> list[DumpedNode]:
    """The nodes in order, each with the last writers of its operands."""
    from openhpu.compiler.program.plan import written_arguments

    wrote: dict[int, int] = {}
    found = []
    for number, node in enumerate(description["nodes"]):
        reads = tuple(dict.fromkeys(wrote[arg[1]] for _, arg in tensors(node) if arg[1] in wrote))
        written = written_arguments(node)
        for position, arg in tensors(node):
            if position in written:
                wrote[arg[1]] = number
        for output in node["outputs"]:
            if output[0] == "fresh":
                wrote[output[1]] = number
        op = node["op"].removeprefix("aten::")
        line = description.get("sites", {}).get(node["site"], "")
        found.append(DumpedNode(f"n{number}_{op.replace('.', '_')}", node["op"], _result(node), line, reads))
    return found


def _result(node: NodeDescription) -> str:
    shapes = [
        f"{str(o[2]).removeprefix('torch.')}[{', '.join(map(str, o[3]))}]" for o in node["outputs"] if o[0] == "fresh"
    ]
    return ", ".join(shapes) or "in place"


def _program(description: Description) -> str:
    from openhpu.compiler.errors import CannotCompile
    from openhpu.compiler.program.program import Program

    try:
        return Program(description).text
    except CannotCompile as error:
        return f"# This graph has no program: {error}\n"


def _svg(description: Description) -> str:
    """One row for each node, its inputs as arcs at the left: readable for graphs of any size."""
    nodes = rows(description)
    height = _ROW * (len(nodes) + 1)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="1100" height="{height}" viewBox="0 0 1100 {height}" '
        'font-family="monospace" font-size="12">',
        f'<rect width="1100" height="{height}" fill="white"/>',
    ]
    for number, row in enumerate(nodes):
        y = _ROW * (number + 1)
        for source in row.reads:
            above = _ROW * (source + 1)
            bend = max(_LEFT - _LANE * (number - source), 4)
            parts.append(
                f'<path d="M{_LEFT} {above}C{bend} {above} {bend} {y} {_LEFT} {y}" fill="none" stroke="#4878b8" '
                f'stroke-opacity="0.6"/>'
            )
        parts.append(f'<circle cx="{_LEFT}" cy="{y}" r="4" fill="#2f8f6b"/>')
        text = f"{row.op.removeprefix('aten::')}  {row.result}"
        parts.append(f'<text x="{_LEFT + 12}" y="{y + 4}">{escape(text)}</text>')
        parts.append(f'<text x="790" y="{y + 4}" fill="#667">{escape(row.line[-44:])}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _pbtxt(description: Description) -> str:
    """A GraphDef in text form, as TensorBoard shows it."""
    nodes = rows(description)
    return "".join(_pbtxt_node(row, nodes) for row in nodes) + "versions { producer: 22 }\n"


def _pbtxt_node(row: DumpedNode, nodes: list[DumpedNode]) -> str:
    inputs = "".join(f'  input: "{nodes[source].name}"\n' for source in row.reads)
    attributes = "".join(
        f'  attr {{ key: "{key}" value {{ s: "{_quoted(value)}" }} }}\n'
        for key, value in (("result", row.result), ("line", row.line))
    )
    return f'node {{\n  name: "{row.name}"\n  op: "{row.op}"\n{inputs}{attributes}}}\n'


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _graphml(description: Description) -> str:
    import networkx

    nodes = rows(description)
    graph = networkx.DiGraph()
    for row in nodes:
        graph.add_node(row.name, op=row.op, result=row.result, line=row.line)
        graph.add_edges_from((nodes[source].name, row.name) for source in row.reads)
    return "\n".join(networkx.generate_graphml(graph)) + "\n"


_WRITERS: dict[str, Callable[[Description], str]] = {
    "py": _program,
    "svg": _svg,
    "pbtxt": _pbtxt,
    "graphml": _graphml,
}
