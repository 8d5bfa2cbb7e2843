"""Settings in JSON and YAML: DeepSpeed's, accelerate's, optimum-habana's, Lightning's. Layout and comments stay."""

import yaml

from openhpu_port.errors import PortError
from openhpu_port.rewriting import Ported, Problem
from openhpu_port.table import Table

SUFFIXES = (".json", ".yaml", ".yml")
_TEXT = "tag:yaml.org,2002:str"


def port_settings(source: bytes, table: Table) -> Ported:
    """Translate a file of settings. JSON is read as YAML. Raises PortError if it is neither, or not in UTF-8."""
    try:
        text = source.decode()
        # A tab is a blank in JSON alone.
        root = yaml.compose(text.replace("\t", " ") if text.lstrip()[:1] in "{[" else text, Loader=yaml.SafeLoader)
    except (UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise PortError(f"it cannot be read: {' '.join(str(error).split())}; expected JSON or YAML in UTF-8") from error
    translation = _Translation(table)
    if root is not None:
        translation.visit(root)
    return Ported(translation.applied(text).encode(), "utf-8", sorted(translation.problems))


class _Translation:
    """The changes of one file, found node by node, and what could not be translated."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.changes: list[tuple[int, int, str]] = []  # start, end, new text
        self.problems: set[Problem] = set()

    def applied(self, text: str) -> str:
        """The text with the changes, from the last one on: the places of those before it stay valid."""
        for start, end, new in sorted(self.changes, reverse=True):
            text = text[:start] + new + text[end:]
        return text

    def visit(self, node: yaml.Node) -> None:
        """Find the changes in a node and below it."""
        if isinstance(node, yaml.MappingNode):
            self._mapping(node)
        elif isinstance(node, yaml.SequenceNode):
            for one in node.value:
                self.visit(one)
        elif node.tag == _TEXT:
            new = self.table.string(node.value)
            if new is not None:
                self._replace(node, new)
            elif self.table.names_device(node.value):
                self._problem(node, node.value, "the text names the device, and is no name of the table")

    def _mapping(self, node: yaml.MappingNode) -> None:
        gone: int | None = None  # where settings begin that go
        end = node.start_mark.index  # of the last that stays
        for key, value in node.value:
            setting = f"{key.value}: {str(value.value).lower() if isinstance(value, yaml.ScalarNode) else ''}"
            entry = self.table.settings.get(setting) or self.table.settings.get(f"{key.value}:")
            if entry is not None and entry.to == "-":
                gone = key.start_mark.index if gone is None else gone
                continue
            if gone is not None:
                self.changes.append((gone, key.start_mark.index, ""))
            gone = None
            end = value.end_mark.index
            if entry is None or not entry.to:
                self.visit(value)
            elif entry.to == "!":
                self._problem(key, setting, entry.reason)
            else:
                self._replace(value, entry.to)
        if gone is not None:
            start = gone if end == node.start_mark.index else end
            self.changes.append((start, node.value[-1][1].end_mark.index, ""))

    def _replace(self, node: yaml.Node, new: str) -> None:
        quote = node.style if node.style in ("'", '"') else ""
        self.changes.append((node.start_mark.index, node.end_mark.index, f"{quote}{new}{quote}"))

    def _problem(self, node: yaml.Node, text: str, reason: str) -> None:
        self.problems.add(Problem(node.start_mark.line + 1, text, reason))
