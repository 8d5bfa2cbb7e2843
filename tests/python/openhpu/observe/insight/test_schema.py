"""A document has the parts that the schema names, each of its type: a run's, and one of a script without a device."""

import types
import typing

import pytest

from openhpu.observe.insight.documents import empty
from openhpu.observe.insight.schema import Document
from tests.python.openhpu.observe.insight.test_planted import PLANTED

CAPTURED = """
import torch
import habana_frameworks.torch as ht

model = ht.hpu.wrap_in_hpu_graph(torch.nn.Linear(4, 4).to("hpu").eval())
with torch.no_grad():
    for rows in (2, 3, 2, 3):
        model(torch.ones(rows, 4, device="hpu"))
"""


def _class(wanted):
    if typing.is_typeddict(wanted):
        return dict
    return (int, float) if wanted is float else wanted


def misfits(value, wanted, place="document"):
    """The parts of a value that are not of this type."""
    origin = typing.get_origin(wanted)
    arguments = typing.get_args(wanted)
    if typing.is_typeddict(wanted) and isinstance(value, dict):
        hints = typing.get_type_hints(wanted)
        for name in wanted.__required_keys__ - value.keys():
            yield f"{place}.{name} is missing"
        for name, part in value.items():
            if name in hints:
                yield from misfits(part, hints[name], f"{place}.{name}")
            else:
                yield f"{place}.{name} is in no schema"
    elif origin is list:
        for number, part in enumerate(value):
            yield from misfits(part, arguments[0], f"{place}[{number}]")
    elif origin is dict:
        for name, part in value.items():
            yield from misfits(part, arguments[1], f"{place}[{name!r}]")
    elif origin is types.UnionType:
        if all([*misfits(value, each, place)] for each in arguments):
            yield f"{place} is {value!r}"
    elif wanted is not typing.Any and not isinstance(value, _class(wanted)):
        yield f"{place} is {value!r}"


def told(document):
    """What the command adds to the first document is not a part of it."""
    return {name: part for name, part in document.items() if name not in ("exit_code", "other_processes")}


def test_a_document_without_a_device():
    assert [*misfits(empty("script.py"), Document)] == []


@pytest.mark.parametrize("code", [PLANTED, CAPTURED], ids=["planted", "captured"])
def test_a_document_of_a_run(openhpu_run, code):
    seen = openhpu_run(code, "--mode", "lazy", "--json", "--check-graphs").seen
    assert [*misfits(told(seen), Document)] == []


def test_what_does_not_fit_is_found():
    document = empty("script.py")
    document["steps"]["count"] = "two"
    document["fallbacks"].append({"op": "aten::mm", "dtype": "Float", "file": None, "line": None, "times": 1})
    del document["memory"]
    assert [*misfits(document, Document)] == [
        "document.memory is missing",
        "document.steps.count is 'two'",
        "document.fallbacks[0].count is missing",
        "document.fallbacks[0].times is in no schema",
    ]
