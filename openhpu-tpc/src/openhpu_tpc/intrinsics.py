"""Intrinsics from one table (`data/families.tsv`): their names, and a C++ function for each that a kernel uses.

A row is a family. Its columns:

forms       `s` (a scalar, `s_NAME`), `v` (registers, `v_NAME_b` and `v_NAME_vb`), `n` (`v_NAME`), `vb` (`v_NAME_vb`),
            `l` (`NAME_b` and `NAME_vb`), `i` (coordinates, `i_NAME`), `-` (NAME)
name        with `{t}` and `{u}` for the types, `{vt}` and `{vu}` for the types of containers
types       short names (`f32`), pairs of them (`i16/i32`), or a set: `all`, `real`, `int`, `alike` (of one width),
            `conversions`, `level`, `up`, `down` (by width), `sizes` (of different widths), `containers`; `-` for none
result      `T` and `U` (the types), `N` and `S` (the unsigned and signed integer as wide as T), `W` (a register of U),
            `P` (a predicate), `uc8` (a byte in each lane), `T+U` (two results for a lane), `=type` (a type of C)
arguments   as the result; `c8` is a register of 256 bytes, of which a lane uses the lowest
tail        what follows the arguments: empty for switches, income, predicate and polarity; `a` if the last argument is
            the income; `ip` without switches; `n` if `ndx` is the income; `-` for nothing
definition  for one lane. A first word changes that: `call` and `load` define the whole value, `into` writes lanes of
            the income, `each` is in float, `do` returns nothing, `step` has a value and an effect, `no` gives the
            reason why the family is refused
fast        for whole registers of this machine, where the switches are 0
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from openhpu.settings import tables
from openhpu_tpc import types
from openhpu_tpc.types import LANES, Lane

TABLE = Path(__file__).parent / "data" / "families.tsv"
_WHOLE = ("call", "load", "into", "each", "do", "step", "no")
_WHOLE_CONVERSIONS = ("level", "sizes")
_POINTERS = {"address": "void*", "const_address": "const void*", "const_int": "const int"}


class Row(NamedTuple):
    """A row of the file."""

    forms: tuple[str, ...]
    name: str
    types: str
    result: str
    definition: str
    arguments: str = ""
    tail: str = ""
    fast: str = ""


class Family(NamedTuple):
    """A row of the table; `kind` is the first word of the definition, or `lane`."""

    forms: tuple[str, ...]
    name: str
    types: str
    result: str
    arguments: tuple[tuple[str, str], ...]
    tail: str
    kind: str
    definition: str
    fast: str


class Intrinsic(NamedTuple):
    """One name. `form` is `s`, `b`, `vb`, `i` or `-`; `t` and `u` are the types, if the family has any."""

    name: str
    family: Family
    form: str
    t: Lane | None
    u: Lane | None
    lanes: int

    @property
    def refused(self) -> str:
        """Why it is not there; empty if it is."""
        return self.family.definition if self.family.kind == "no" else ""


def _arguments(text: str) -> tuple[tuple[str, str], ...]:
    pairs = (argument.strip().rsplit(" ", 1) for argument in text.split(",") if argument.strip())
    return tuple((kind, name) for kind, name in pairs)


@cache
def families() -> tuple[Family, ...]:
    """The rows of the table, in its order."""
    found = []
    for row in tables.read(TABLE, Row):
        first, _, rest = row.definition.partition(" ")
        kind, defined = (first, rest) if first in _WHOLE else ("lane", row.definition)
        family = Family(
            forms=row.forms,
            name=row.name,
            types=row.types,
            result=row.result,
            arguments=_arguments(row.arguments),
            tail=row.tail,
            kind=kind,
            definition=defined,
            fast=row.fast,
        )
        found.append(family)
    return tuple(found)


def _wider(t: str, u: str) -> int:
    return LANES[u].bits - LANES[t].bits


_SETS = {
    "alike": types.alike,
    "conversions": types.conversions,
    "level": lambda: [(t, u) for t, u in types.conversions() if _wider(t, u) == 0],
    "up": lambda: [(t, u) for t, u in types.conversions() if _wider(t, u) > 0],
    "down": lambda: [(t, u) for t, u in types.conversions() if _wider(t, u) < 0],
    "sizes": lambda: [(t, u) for t, u in types.conversions() if _wider(t, u) != 0],
}


def _combinations(kinds: str) -> Iterator[tuple[str, str]]:
    for word in kinds.split():
        if word in _SETS:
            yield from _SETS[word]()
        elif word in ("all", "real", "int"):
            chosen = {"all": list(LANES), "real": types.REAL, "int": types.INTEGERS}[word]
            yield from ((name, "") for name in chosen)
        elif word == "-":
            yield "", ""
        else:
            t, _, u = word.partition("/")
            yield t, u


def _named(family: Family, form: str) -> Iterator[tuple[str, str]]:
    """(name, form) of what a form stands for."""
    name = family.name
    yield from {
        "s": [(f"s_{name}", "s")],
        "v": [(f"v_{name}_b", "b"), (f"v_{name}_vb", "vb")],
        "n": [(f"v_{name}", "b")],
        "vb": [(f"v_{name}_vb", "vb")],
        "l": [(f"{name}_b", "b"), (f"{name}_vb", "vb")],
        "i": [(f"i_{name}", "i")],
        "-": [(name, "-")],
    }[form]


def _of_containers(family: Family) -> Iterator[Intrinsic]:
    """Conversions between values of as many lanes."""
    for t, u in types.conversions():
        for lanes in (64, 128, 256, 512):
            most = 512 if LANES[t].bits == LANES[u].bits == 8 else 256
            if not max(LANES[t].lanes, LANES[u].lanes) <= lanes <= most:
                continue
            name = family.name.format(vt=types.vector(LANES[t], lanes), vu=types.vector(LANES[u], lanes))
            yield Intrinsic(name, family, "-", LANES[t], LANES[u], lanes)


def _lane(name: str, family: Family) -> Lane | None:
    if name and name not in LANES and family.kind != "no":
        raise KeyError(f"{TABLE}: {family.name}: there is no type {name}")
    return LANES.get(name)


@cache
def intrinsics() -> dict[str, Intrinsic]:
    """Every name of the table."""
    found: dict[str, Intrinsic] = {}
    for family in families():
        if family.types == "containers":
            found |= {each.name: each for each in _of_containers(family)}
            continue
        for t, u in _combinations(family.types):
            first, second = _lane(t, family), _lane(u, family)
            for form in family.forms:
                for name, kind in _named(family, form):
                    full = name.format(t=t, u=u)
                    lanes = first.lanes if first else 0
                    found.setdefault(full, Intrinsic(full, family, kind, first, second, lanes))
    return found


@cache
def tested() -> frozenset[str]:
    """The names that a test has called on every lane, with income and predicate (`data/tested.txt`)."""
    return frozenset((TABLE.parent / "tested.txt").read_text().split())


_MEMORY = re.compile(r"\btpc::(?:load|store|read|write)\w*")
_LINE = "const char* tpc_file = __builtin_FILE(), int tpc_line = __builtin_LINE()"


class _Writer:
    """The C++ of one intrinsic. `checked`: for the variant of a kernel with checks, which notes lines and counts."""

    def __init__(self, intrinsic: Intrinsic, checked: bool = False) -> None:
        self.it = intrinsic
        self.checked = checked
        self.family = intrinsic.family
        self.registers = intrinsic.form in ("b", "vb") or intrinsic.family.types == "containers"

    def lane(self, kind: str) -> str:
        """The C++ type of one lane of a value."""
        t, u = self.it.t, self.it.u
        if kind in LANES:
            return LANES[kind].scalar
        if t is None:
            raise KeyError(f"{TABLE}: {self.it.name}: {kind} needs a type")
        lanes = {
            "T": t,
            "U": u,
            "W": u,
            "N": types.unsigned_like(t),
            "S": types.signed_like(t),
            "uc8": LANES["u8"],
            "c8": LANES["i8"],
        }
        chosen = lanes.get(kind)
        if chosen is None:
            raise KeyError(f"{TABLE}: {self.it.name}: there is no kind {kind}")
        return chosen.scalar

    def whole(self, kind: str) -> str:
        """The C++ type of a value as the function's declaration has it."""
        if kind == "void":
            return "void"
        if kind.startswith("="):
            return self._named(kind[1:])
        if not self.registers:
            return "bool" if kind == "P" else self.lane(kind)
        t, u, lanes = self.it.t, self.it.u, self.it.lanes
        assert t is not None, self.it.name
        if kind == "P":
            return f"bool{lanes}"
        if "+" in kind:
            first, second = (self.whole(each) for each in kind.split("+"))
            return types.pair(first, second)
        if kind == "W":
            assert u is not None, self.it.name
            return types.vector(u, u.lanes)
        if kind in ("uc8", "c8"):
            return {"uc8": "uchar256", "c8": "char256"}[kind]
        found = {"T": t, "U": u, "N": types.unsigned_like(t), "S": types.signed_like(t)}[kind]
        assert found is not None, self.it.name
        if u and self.family.types in _WHOLE_CONVERSIONS:  # the narrower type fills a register
            lanes = max(t.lanes, u.lanes)
        return types.vector(found, lanes)

    def _named(self, kind: str) -> str:
        t, u = self.it.t, self.it.u
        if kind in ("VT", "V2") and t:
            register = types.vector(t, self.it.lanes)
            return types.pair(register, register) if kind == "V2" else register
        if kind == "VU" and u:
            return types.vector(u, self.it.lanes if self.family.types == "containers" else u.lanes)
        if kind == "T_address" and t:
            return f"{t.scalar}**"
        if kind == "{t:cpp_pair}" and t:
            return {"u32": "uint32_t_pair_t", "u16": "uint16_t_pair_t", "u8": "uint8_t_pair_t"}[t.name]
        return _POINTERS.get(kind, kind)

    @property
    def predicate_lanes(self) -> int:
        """How many lanes the predicate has."""
        result = self.family.result
        if result.startswith("=bool"):
            return int(result[5:])
        if not self.it.t:
            return 256
        if self.family.kind == "into":
            narrowing = self.family.types == "down" or self.family.name.endswith("_single")
            wide = self.it.u if narrowing else self.it.t
            assert wide
            return wide.lanes
        if self.family.types in _WHOLE_CONVERSIONS and self.it.u:
            return max(self.it.t.lanes, self.it.u.lanes)
        if result == "W":
            assert self.it.u
            return self.it.u.lanes
        return self.it.lanes

    @property
    def income(self) -> str:
        """The name of the value that the predicate lets through."""
        return {"a": "accumulator", "n": "ndx"}.get(self.family.tail, "income")

    def parameters(self) -> str:
        """The declaration's parameters."""
        family = self.family
        taken = [f"{self._argument(kind)} {name}" for kind, name in family.arguments]
        if family.tail == "-":
            return ", ".join(taken)
        if family.tail != "ip":
            taken.append("int switches = 0")
        if family.result != "void" and self.income == "income":
            default = " = {}"
            taken.append(f"{self.whole(family.result)} income{default}")
        predicate = f"bool{self.predicate_lanes}" if self.it.form == "vb" else "bool"
        taken += [f"{predicate} predicate = 1", "bool polarity = 0"]
        if self.notes_line:
            taken.append(_LINE)
        return ", ".join(taken)

    @property
    def notes_line(self) -> bool:
        """Whether it tells the checks its line: it uses memory."""
        return self.checked and _MEMORY.search(self.family.definition) is not None

    def _noted(self) -> list[str]:
        if not self.checked:
            return []
        if self.notes_line:
            return ["tpc::at_line(tpc_file, tpc_line);"]
        if not self.registers:
            return []
        functions = self.family.kind == "each" or "tpc::reduced" in self.family.definition
        return ["TPC_COUNT(special);" if functions else "TPC_COUNT(vector);"]

    def _argument(self, kind: str) -> str:
        """By value in a scalar, by reference in a register, as the calls are inlined."""
        return self.whole(kind)

    def declaration(self) -> str:
        """The C++ declaration."""
        return f"TPC_INLINE {self.whole(self.family.result)} {self.it.name}({self.parameters()})"

    def definition(self) -> str:
        """The C++ definition."""
        lines = [*self._types(), *self._noted(), *self._body()]
        body = "\n".join(f"  {line}" for line in lines)
        return f"{self.declaration()} {{\n{body}\n}}\n"

    def _types(self) -> list[str]:
        named = []
        text = f"{self.family.definition} {self.family.fast}"
        for letter, lane in (("T", self.it.t), ("U", self.it.u), ("S", self.it.t and types.signed_like(self.it.t))):
            if lane and (re.search(rf"\b{letter}\b", text) or (letter == "T" and self.family.kind == "each")):
                named.append(f"using {letter} = {lane.scalar};")
        if re.search(r"\bR\b", text) or self.family.kind == "each":
            named.append(f"using R = {self.whole(self.family.result)};")
        for name in ("VT", "VU"):
            if re.search(rf"\b{name}\b", text):
                named.append(f"using {name} = {self._named(name)};")
        return named

    def _body(self) -> list[str]:
        family = self.family
        if family.tail == "-":
            return [f"return {self._plain()};"]
        if family.kind == "do":
            return [f"if (predicate != polarity) {{ {family.definition}; }}"]
        if family.kind == "into":
            which = f"bool{self.predicate_lanes}"
            gate = f"{which}(predicate != polarity)" if self.it.form == "b" else "tpc::chosen(predicate, polarity)"
            return [f"const {which} which = {gate};", f"return {family.definition};"]
        if family.kind == "step":
            value, effect = (part.strip() for part in family.definition.split(";"))
            return [
                f"if (predicate == polarity) return {self.income};",
                f"const {self.whole(family.result)} value = {value};",
                f"{effect};",
                "return value;",
            ]
        lines = []
        if self.it.form != "vb":
            lines.append(f"if (predicate == polarity) return {self.income};")
        result = self.whole(family.result)
        if family.fast and self.registers and self._machine():
            lines.append("if (switches == 0) {")
            lines.append(f"  const {result} fast = {self._fast()};")
            lines += [f"  return tpc::merged(fast, {self.income}, predicate, polarity);", "}"]
        lines.append(f"{result} result = {self._value()};")
        lines += [f"return tpc::merged(result, {self.income}, predicate, polarity);"]
        return lines

    def _plain(self) -> str:
        return self._value()

    def _machine(self) -> bool:
        """Whether the machine computes with this type; all types are bits for it."""
        t = self.it.t
        bitwise = self.family.fast in ("a & b", "a | b", "a ^ b")
        return t is not None and (t.name != "f32" if bitwise else not t.real or t.name == "f32")

    def _fast(self) -> str:
        names = [name for _, name in self.family.arguments]
        parameters = ", ".join(f"auto {name}" for name in names)
        result = self.whole(self.family.result)
        return f"tpc::parts<{result}>([&]({parameters}) {{ return {self.family.fast}; }}, {', '.join(names)})"

    def _value(self) -> str:
        family = self.family
        result = self.whole(family.result)
        whole = family.kind in ("call", "load") or family.types == "containers" or "tpc::reduced" in family.definition
        if whole or not self.registers or not any(self._is_lane(kind) for kind, _ in family.arguments):
            return self._scalar_value()
        names = [name for kind, name in family.arguments if self._is_lane(kind)]
        kinds = [kind for kind, _ in family.arguments if self._is_lane(kind)]
        passed = ", ".join(self._passed(kind, name) for kind, name in zip(kinds, names, strict=True))
        parameters = ", ".join(self._parameter(kind, name) for kind, name in zip(kinds, names, strict=True))
        before = "".join(
            f"const signed char {name} = static_cast<signed char>(bits_{name}); "
            for kind, name in zip(kinds, names, strict=True)
            if kind == "c8"
        )
        if family.kind == "each":
            return f"tpc::lanes<R>([]({parameters}) {{ return T({family.definition}); }}, {passed})"
        if "+" in family.result:
            return f"tpc::zipped<{result}>([=]({parameters}) {{ {before}return {self._both()}; }}, {passed})"
        if family.result == "P":
            return f"tpc::compared<{self.it.lanes}>([=]({parameters}) {{ return {family.definition}; }}, {passed})"
        if family.result == "uc8":
            return self._bytes_of_lanes(parameters, passed)
        lane = f"[=]({parameters}) -> {self.lane(family.result)} {{ {before}return {family.definition}; }}"
        return f"tpc::lanes<{result}>({lane}, {passed})"

    def _both(self) -> str:
        """The two results of a lane."""
        first, second = (part.strip() for part in self.family.definition.split(";"))
        of_first, of_second = (self.lane(kind) for kind in self.family.result.split("+"))
        return f"tpc::Both<{of_first}, {of_second}>{{{first}, {second}}}"

    def _bytes_of_lanes(self, parameters: str, passed: str) -> str:
        """Lanes as wide as the operands', whose bits are a vector of bytes."""
        t = self.it.t
        assert t is not None
        like = types.unsigned_like(t)
        inner = f"tpc::lanes<{types.vector(like, like.lanes)}>"
        lane = f"[=]({parameters}) -> {like.scalar} {{ return {self.family.definition}; }}"
        return f"tpc::bits_of<uchar256>({inner}({lane}, {passed}))"

    def _scalar_value(self) -> str:
        if self.family.kind == "each":
            return f"T({self.family.definition})"
        return self.family.definition

    @staticmethod
    def _is_lane(kind: str) -> bool:
        return not kind.startswith("=")

    def _passed(self, kind: str, name: str) -> str:
        if kind == "c8":
            assert self.it.t
            return f"tpc::bits_of<{types.vector(types.signed_like(self.it.t), self.it.lanes)}>({name})"
        return name

    def _parameter(self, kind: str, name: str) -> str:
        if kind == "c8":
            assert self.it.t
            return f"{types.signed_like(self.it.t).scalar} bits_{name}"
        return f"{'float' if self.family.kind == 'each' else self.lane(kind)} {name}"


def declaration(intrinsic: Intrinsic) -> str:
    """The C++ declaration of an intrinsic that is there."""
    return _Writer(intrinsic).declaration()


def definition(intrinsic: Intrinsic, checked: bool = False) -> str:
    """The C++ definition of an intrinsic that is there; `checked`: for the variant of a kernel with checks."""
    return _Writer(intrinsic, checked).definition()
