"""The calls of `gaudi-record probe`, from the table data/probe.tsv.

A row is a family, operators, their arguments, dtypes and rules for values. It stands for each operator with each dtype
and each rule. An argument is JSON. In it `"x:3,67"` is a tensor of the row's dtype with values by the row's rule;
`"i@int64:9:index(13)"` has a dtype and a rule of its own (here: indices below 13), and `-` is the shape of a number.
`"dtype=float32"`, `"dtype=*"` (the row's), `"device"` and `"'amax"` (a text) are what they say. An object that comes
last holds the arguments by name.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from openhpu_record.errors import RecordError
from openhpu_record.made import RULES

TABLE = Path(__file__).parent.parent / "data" / "probe.tsv"
RANDOM = "random"  # the family whose numbers are compared by their statistics
SPEED = "speed"  # the family of large inputs, whose time is not that of their launch
OUTSIDE = ("outside", "past")  # rules whose indices lie out of range
_LATE = "late"
_TENSOR = re.compile(r"([a-z])(?:@(\w+))?:(\d+(?:,\d+)*|-)(?::(\w+)(?:\((\d+)\))?)?$")
_WHOLE = {"plain": "whole", "edge": "whole_edge"}  # rules for integers


def probe_calls() -> list[dict[str, Any]]:
    """All calls, the families in turns, so that the first minutes have some of each.

    Those with indices out of range come after the others: a card may write anywhere. Those of SPEED come last.
    """
    families: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    seen = set()  # two rules can be one for bool
    lines = TABLE.read_text().splitlines()[1:]
    for number, line in enumerate(lines):
        family, operators, arguments, dtypes, values = line.split("\t")
        for rule in values.split():
            for dtype in dtypes.split():
                for name in operators.split():
                    key = (number, name, dtype, _rule(rule, dtype))
                    if key[-1] is not None and key not in seen:
                        seen.add(key)
                        outside = any(f":{rule}(" in arguments for rule in OUTSIDE)
                        queue_name = _LATE if outside else family
                        families[queue_name].append(_call(number, family, name, arguments, dtype, key[-1]))
    last = families.pop(_LATE) + families.pop(SPEED)
    queues = [iter(calls) for calls in families.values()]
    found: list[dict[str, Any]] = []
    while queues:
        for queue in list(queues):
            call = next(queue, None)
            if call is None:
                queues.remove(queue)
            else:
                found.append({"id": len(found), **call})
    return found + [{"id": len(found) + number, **call} for number, call in enumerate(last)]


def _rule(rule: str, dtype: str) -> str | None:
    """The rule for a dtype. None: the rule has no numbers of this dtype."""
    if dtype == "bool":
        return "truth"
    if getattr(torch, dtype).is_floating_point:
        return rule
    return _WHOLE.get(rule, rule if rule in ("same", "wide") else None)


def _call(number: int, family: str, name: str, arguments: str, dtype: str, rule: str) -> dict[str, Any]:
    plain, _, overload = name.removeprefix("hpu.").partition(".")
    namespace = "hpu" if name.startswith("hpu.") else "aten"

    def argument(value: Any) -> Any:
        if isinstance(value, list):
            return [argument(one) for one in value]
        return _text(value, number, dtype, rule) if isinstance(value, str) else value

    given = json.loads(arguments)
    named = given.pop() if given and isinstance(given[-1], dict) else {}
    return {
        "family": family,
        "op": f"{namespace}.{plain}.{overload or 'default'}",
        "args": argument(given),
        "kwargs": {key: argument(value) for key, value in named.items()},
        "values": rule,
        "dtype": dtype,
    }


def _text(text: str, number: int, dtype: str, rule: str) -> Any:
    if text.startswith("'"):
        return text[1:]
    if text == "device":
        return {"device": True}
    if text.startswith("dtype="):
        return {"dtype": text.removeprefix("dtype=").replace("*", dtype)}
    found = _TENSOR.match(text)
    if found is None or (found[4] or rule) not in RULES:
        raise RecordError(f"{TABLE}: line {number + 2}: {text!r} is no argument")
    letter, own_dtype, shape, own_rule, bound = found.groups()
    made: dict[str, Any] = {"rule": own_rule or rule, "seed": number * 29 + ord(letter) - ord("a") + 1}
    if bound:
        made["bound"] = int(bound)
    sizes = [] if shape == "-" else [int(size) for size in shape.split(",")]
    return {"tensor": {"dtype": own_dtype or dtype, "shape": sizes, "made": made}}


def families(calls: list[dict[str, Any]]) -> Iterator[str]:
    """The families in their order."""
    return iter(dict.fromkeys(call["family"] for call in calls))
