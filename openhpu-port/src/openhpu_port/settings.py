"""Settings in JSON and YAML: DeepSpeed's, accelerate's, optimum-habana's, Lightning's. Layout and comments stay."""

from __future__ import annotations

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
    settings = _Settings(table)
    if root is not None:
        settings.visit(root)
    for start, end, new in sorted(settings.changes, reverse=True):
        text = text[:start] + new + text[end:]
    return Ported(text.encode(), "utf-8", sorted(set(settings.problems)))


class _Settings:
    """Collects changes, as start, end and new text; and what is not translated."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.changes: list[tuple[int, int, str]] = []
        self.problems: list[Problem] = []

    def visit(self, node: yaml.Node) -> None:
        """A value."""
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
                self._list(node, node.value, "the text names the device, and is no name of the table")

    def _list(self, node: yaml.Node, what: str, reason: str) -> None:
        self.problems.append(Problem(node.start_mark.line + 1, what, reason))

    def _replace(self, node: yaml.Node, new: str) -> None:
        quote = node.style if node.style in ("'", '"') else ""
        self.changes.append((node.start_mark.index, node.end_mark.index, f"{quote}{new}{quote}"))

    def _mapping(self, node: yaml.MappingNode) -> None:
        gone: int | None = None  # where settings begin that go
        end = node.start_mark.index  # of the last that stays
        for key, value in node.value:
            words = str(value.value).lower() if isinstance(value, yaml.ScalarNode) else ""
            entry = self.table.settings.get(f"{key.value}: {words}") or self.table.settings.get(f"{key.value}:")
            if entry is not None and entry.to == "-":
                gone = key.start_mark.index if gone is None else gone
                continue
            if gone is not None:
                self.changes.append((gone, key.start_mark.index, ""))
            gone, end = None, value.end_mark.index
            if entry is None or not entry.to:
                self.visit(value)
            elif entry.to == "!":
                self._list(key, f"{key.value}: {words}", entry.reason)
            else:
                self._replace(value, entry.to)
        if gone is not None:
            last = node.value[-1][1].end_mark.index
            self.changes.append((gone if end == node.start_mark.index else end, last, ""))
