"""The table of the probe: how many calls, and that each is one."""

import json
import re
from collections import Counter

import pytest

from openhpu_record import calls
from openhpu_record.errors import RecordError
from openhpu_record.made import RULES
from openhpu_record.probe import table

CALLS = table.probe_calls()


def test_there_are_three_thousand_calls_of_many_kinds():
    assert len(CALLS) >= 3000
    assert [call["id"] for call in CALLS] == list(range(len(CALLS)))
    assert len({call["op"] for call in CALLS}) > 180
    assert {"int64", "indices", "casts", "fp8", "random", "products"} <= {*table.families(CALLS)}


def test_no_call_is_there_twice():
    keys = Counter(json.dumps([call["op"], call["args"], call["kwargs"]]) for call in CALLS)
    assert [key for key, number in keys.items() if number > 1] == []


def test_the_first_calls_are_of_every_family():
    families = [*table.families(CALLS)][:-1]
    assert [*table.families(CALLS)][-1] == table.SPEED
    assert {call["family"] for call in CALLS[: len(families)]} == set(families)


def test_indices_out_of_range_come_after_all_that_they_could_spoil():
    outside = [number for number, call in enumerate(CALLS) if re.search("outside|past", json.dumps(call["args"]))]
    small = len([call for call in CALLS if call["family"] != table.SPEED])
    assert outside == list(range(small - len(outside), small)) and len(outside) >= 30


def test_each_operator_exists():
    missing = set()
    for name in {call["op"] for call in CALLS}:
        try:
            calls.operator(name)
        except RecordError as error:
            missing.add(str(error))
    assert not missing


def test_inputs_are_made_by_known_rules():
    assert set(re.findall(r'"rule": "(\w+)"', json.dumps(CALLS))) <= RULES.keys()


@pytest.mark.parametrize("text", ["x:3,", "x", "xy:3", "x:3:sun", "x@float32"])
def test_a_wrong_argument_names_its_line(text):
    with pytest.raises(RecordError, match="line 9"):
        table._text(text, 7, "float32", "plain")
