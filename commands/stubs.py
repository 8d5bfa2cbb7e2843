"""operators.pyi: the arguments of Gaudi's operators, from the schemas of operators.tsv. `make docs` writes it.

A class has the arguments of all operators that share its function. An argument that one of them lacks is None there.
"""

import re
from typing import Any

from commands import ROOT

PATH = ROOT / "src" / "openhpu" / "interface" / "gaudi_ops" / "operators.pyi"
_HEAD = '''"""The arguments of Gaudi's operators: a class for each function of operators.tsv. Written by `make docs`."""

import torch
from torch import Tensor

from openhpu.interface.gaudi_ops.arguments import Arguments
'''
# PyTorch's names of types in schemas, and Python's.
_TYPES = {
    "Tensor": "Tensor",
    "int": "int",
    "SymInt": "int",
    "float": "float",
    "bool": "bool",
    "str": "str",
    "ScalarType": "torch.dtype",
    "Layout": "torch.layout",
    "Device": "torch.device",
}


def class_name(function: str) -> str:
    """That of a function of the table: `fp8.cast_to_fp8_v2` has the arguments CastToFp8V2."""
    words = function.partition(".")[2].split("_")
    return "".join(word[:1].upper() + word[1:] or "_" for word in words)


def annotation(kind: str) -> str:
    """A type of a schema, as Python writes it. KeyError for one that no operator had before."""
    if optional := re.fullmatch(r"Optional\[(.*)\]", kind):
        return f"{annotation(optional[1])} | None"
    if of := re.fullmatch(r"List\[(.*)\]", kind):
        return f"list[{annotation(of[1])}]"
    return _TYPES[kind]


def _attribute(formals: list[Any], operators: int) -> str:
    """The types that an argument has in the schemas of a number of operators."""
    kinds = [annotation(formal.real_type.annotation_str) for formal in formals]
    found = dict.fromkeys(part for kind in kinds for part in kind.split(" | "))
    if len(formals) < operators:
        found["None"] = None
    return " | ".join(sorted(found, key="None".__eq__))


def text() -> str:
    """The file as the table says it."""
    from openhpu.interface.gaudi_ops import registry

    parts = [_HEAD]
    for function, arguments in registry.formals().items():
        operators = sum(row.function == function for row in registry.rows())
        lines = [f"class {class_name(function)}(Arguments):"]
        lines += [f"    {name}: {_attribute(formals, operators)}" for name, formals in arguments.items()]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)
