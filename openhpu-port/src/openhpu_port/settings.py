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
    changes: list[tuple[int, int, str]] = []  # start, end, new text
    problems: set[Problem] = set()

    def replace(node: yaml.Node, new: str) -> None:
        quote = node.style if node.style in ("'", '"') else ""
        changes.append((node.start_mark.index, node.end_mark.index, f"{quote}{new}{quote}"))

    def visit(node: yaml.Node) -> None:
        if isinstance(node, yaml.MappingNode):
            mapping(node)
        elif isinstance(node, yaml.SequenceNode):
            for one in node.value:
                visit(one)
        elif node.tag == _TEXT:
            new = table.string(node.value)
            if new is not None:
                replace(node, new)
            elif table.names_device(node.value):
                reason = "the text names the device, and is no name of the table"
                problems.add(Problem(node.start_mark.line + 1, node.value, reason))

    def mapping(node: yaml.MappingNode) -> None:
        gone: int | None = None  # where settings begin that go
        end = node.start_mark.index  # of the last that stays
        for key, value in node.value:
            setting = f"{key.value}: {str(value.value).lower() if isinstance(value, yaml.ScalarNode) else ''}"
            entry = table.settings.get(setting) or table.settings.get(f"{key.value}:")
            if entry is not None and entry.to == "-":
                gone = key.start_mark.index if gone is None else gone
                continue
            if gone is not None:
                changes.append((gone, key.start_mark.index, ""))
            gone = None
            end = value.end_mark.index
            if entry is None or not entry.to:
                visit(value)
            elif entry.to == "!":
                problems.add(Problem(key.start_mark.line + 1, setting, entry.reason))
            else:
                replace(value, entry.to)
        if gone is not None:
            changes.append((gone if end == node.start_mark.index else end, node.value[-1][1].end_mark.index, ""))

    if root is not None:
        visit(root)
    for start, end, new in sorted(changes, reverse=True):
        text = text[:start] + new + text[end:]
    return Ported(text.encode(), "utf-8", sorted(problems))
