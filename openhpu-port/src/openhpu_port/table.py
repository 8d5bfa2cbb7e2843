"""The table of names: Gaudi's in data/names.tsv, torch.hpu's from the CUDA names of OpenHPU's GPU migration."""

import operator
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import torch

from openhpu.integration.migration import cuda_names
from openhpu.settings import tables
from openhpu.settings.variables import find as find_variable

TABLE = Path(__file__).with_name("data") / "names.tsv"
TARGETS = ("cuda", "xpu", "cpu")


class PortedName(NamedTuple):
    """A row of the file: what becomes of a name on each target, as `Entry` says it. A name in quotes is a string, one
    after `$` a variable, one with a colon a setting; `-> name` in place of targets: another spelling of that name."""

    name: str
    cuda: str = ""
    xpu: str = ""
    cpu: str = ""
    arguments: tuple[str, ...] = ()
    reason: str = ""


class Entry(NamedTuple):
    """What becomes of a name.

    `to`: another name; `=` and an expression, for a call, where $1 is the first argument and the statement goes if it
    is None; `@` and a name, for a method: the object's method of this name, or the object itself; `!`: it is listed.

    `arguments`: those of the old call in their order; empty: they stay. `new<old`: another name; `new<old.part`: a part
    of the old one, which also stands elsewhere; `name=value`: added if it was not given; `-name`: dropped;
    `~name=value`: dropped if it has this value, else listed; `*`: keywords from here; `+text`: added; `^`: a statement
    is listed; `!`: a call with arguments is listed; `...`: other keywords, from here; `cpu?token`: on the CPU alone.

    `reason`: why it is listed.
    """

    to: str
    arguments: str = ""
    reason: str = ""


@dataclass
class Table:
    """A way to port: from the names of one device to those of another."""

    device: str  # of the names that go
    target: str
    roots: tuple[str, ...]  # packages whose imports go
    names: dict[str, Entry] = field(default_factory=dict)
    strings: dict[str, str] = field(default_factory=dict)
    attributes: dict[str, str] = field(default_factory=dict)  # of any object
    variables: dict[str, str] = field(default_factory=dict)  # of the environment; empty: it goes
    methods: dict[str, str] = field(default_factory=dict)  # those of classes in `names`, whatever the class
    spellings: dict[str, str] = field(default_factory=dict)
    settings: dict[str, Entry] = field(default_factory=dict)  # "key:" or "key: value"; to `-`: it goes

    def canonical(self, name: str) -> str:
        """The table's spelling of a dotted name."""
        for old, new in self.spellings.items():
            if name == old or name.startswith(old + "."):
                return self.canonical(new + name[len(old) :])
        return name

    def is_own(self, name: str) -> bool:
        """Whether the name is of a package that goes."""
        return name.startswith(tuple(root + "." for root in self.roots)) or name in self.roots

    def find(self, name: str) -> Entry | None:
        """What becomes of a canonical name; None for one that is not of the device."""
        if name in self.names or not self.is_own(name):
            return self.names.get(name)
        parts = name.split(".")
        for count in range(len(parts) - 1, 0, -1):
            if entry := self.names.get(".".join((*parts[:count], "*"))):
                return entry
        return Entry("!", reason="no counterpart is known")

    def string(self, text: str) -> str | None:
        """What becomes of a string: a device with an index, too. None if it stays."""
        kind, colon, index = text.partition(":")
        if kind == self.device and (index.isdigit() or not index):
            return self.strings[kind] + ("" if self.target == "cpu" and index else colon + index)
        return self.strings.get(text)

    def names_device(self, text: str) -> bool:
        """Whether a text without blanks holds a name of the device."""
        return " " not in text and bool(re.search(rf"\b{self.device}\b|{'|'.join(self.strings)}|habana", text))

    def variable(self, name: str) -> str | None:
        """What becomes of an environment variable: another one, or "" if it goes. None if it stays."""
        if name not in self.variables and (self.device != "hpu" or find_variable(name) is None):
            return None
        return self.variables.get(name, "")


def to_device(target: str) -> Table:
    """From Gaudi's names to those of `target`, one of TARGETS."""
    table = Table(
        "hpu", target, ("habana_frameworks", "torch.hpu", "torch.ops.hpu", "lightning_habana", "optimum.habana")
    )
    table.names["torch.hpu"] = Entry(f"torch.{target}")
    _add_counterparts(table)
    for row in tables.read(TABLE, PortedName, unique="name"):
        _add_row(table, row)
    table.methods = {name.rpartition(".")[2]: entry.to for name, entry in table.names.items() if "()" in name}
    return table


def _add_counterparts(table: Table) -> None:
    """The names and attributes that GPU migration knows, the other way round."""
    target = table.target
    for row in cuda_names.ROWS.values():
        old = row.counterpart
        # Of several names of torch.cuda the one that is spelled alike.
        chosen = old not in table.names or row.name == old.replace("hpu", "cuda")
        if row.how in ("same", "changed") and old.startswith("torch.hpu.") and row.name.startswith("torch.") and chosen:
            table.names[old] = _present(Entry(row.name.replace("torch.cuda", f"torch.{target}")))
    for row in cuda_names.ROWS.values():
        old, new = (one.rpartition(".")[2] for one in (row.counterpart, row.name))
        if "hpu" in old and old.replace("hpu", "cuda") == new and not row.name.startswith("torch.cuda."):
            table.attributes[old] = new.replace("cuda", target)


def _add_row(table: Table, row: PortedName) -> None:
    """A row of names.tsv: a setting, a spelling, a string, an environment variable or a name of Python."""
    target = table.target
    name = row.name
    to = str(getattr(row, target)).replace("{device}", target)
    arguments = " ".join(
        token.removeprefix("cpu?") for token in row.arguments if target == "cpu" or not token.startswith("cpu?")
    )
    if ":" in name and not name.startswith('"'):
        table.settings[name] = Entry(to, reason=row.reason)
    elif row.cuda.startswith("-> "):
        table.spellings[name] = row.cuda[3:]
    elif name.startswith('"'):
        table.strings[name.strip('"')] = to.strip('"')
    elif name.startswith("$"):
        table.variables[name[1:]] = to
    else:
        table.names[name] = _present(Entry(to, arguments, row.reason))


def from_cuda() -> Table:
    """From CUDA's names to hpu's: the rows of GPU migration whose counterpart is a name that does the same."""
    table = Table("cuda", "hpu", ("torch.cuda", "pynvml", "apex"), strings={"cuda": "hpu", "nccl": "hccl"})
    table.names["torch.cuda"] = Entry("torch.hpu")
    for row in cuda_names.ROWS.values():
        if row.how == "ignored" and row.install == "value":
            table.names[row.name] = Entry(f"={row.counterpart}")
        elif row.install == "object" and row.counterpart.startswith("torch."):
            table.names[row.name] = Entry(row.counterpart)
        else:
            table.names[row.name] = Entry("!", reason=row.result or f"write {row.counterpart}")
    table.names = {name: entry for name, entry in table.names.items() if table.is_own(name)}
    table.attributes = {new: old for old, new in to_device("cuda").attributes.items()}
    return table


def _present(entry: Entry) -> Entry:
    """The entry, or that it is listed where this PyTorch does not have what the name becomes. It has names of CUDA."""
    if not entry.to.startswith("torch.") or entry.to.startswith("torch.cuda."):
        return entry
    try:
        operator.attrgetter(entry.to.removeprefix("torch."))(torch)
    except AttributeError:
        return Entry("!", reason=f"PyTorch has no {entry.to}")
    return entry
