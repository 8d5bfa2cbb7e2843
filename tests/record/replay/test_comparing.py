"""The verdict on a call: equal, close, different, refused; and which kind of difference the numbers show."""

import copy
import math

import pytest
import torch

from openhpu_record.replay import comparing
from openhpu_record.replay.comparing import verdict


def tensor(dtype, *shape, rule="plain", bound=1):
    return {"tensor": {"dtype": dtype, "shape": list(shape), "made": {"rule": rule, "seed": 3, "bound": bound}}}


def call(op, *args, family="", dtype="float32", **kwargs):
    return {"id": 0, "op": op, "args": list(args), "kwargs": kwargs, "family": family, "dtype": dtype}


SUM = call("aten.sum.dim_IntList", tensor("float32", 5, 131), [1])
ADD = call("aten.add.Tensor", tensor("int64", 3, 7, rule="wide"), tensor("int64", 3, 7, rule="wide"), dtype="int64")
DOUBLE = call("aten.exp.default", tensor("float64", 40), dtype="float64")
FP8 = call("aten._to_copy.default", tensor("float32", 60, rule="large"))
FP8["kwargs"] = {"dtype": {"dtype": "float8_e4m3fn"}}
SELECT = call(
    "aten.index_select.default", tensor("float32", 3, 2), 0, tensor("int64", 4, rule="past", bound=3), family="indices"
)
SMALL = call("aten.mul.Tensor", tensor("float32", 50, rule="small"), tensor("float32", 50, rule="small"))


def changed(outcome, change):
    """An outcome whose first result has other numbers."""
    other = copy.deepcopy(outcome)
    result = other["results"][0]
    result["values"] = change(result["values"].clone())
    result["hash"] = "changed"
    return other


@pytest.mark.parametrize(
    ("of", "change", "expected", "kind"),
    [
        (SUM, lambda x: x, "equal", ""),
        (SUM, lambda x: x * (1 + 1e-5), "close", ""),
        (SUM, lambda x: x.bfloat16().float(), "different", ""),
        (SUM, lambda x: x.index_fill(0, torch.tensor([2]), math.nan), "different", ""),
        (ADD, lambda x: x.int().long(), "different", "int64-arithmetic"),
        (ADD, lambda x: x + 1, "different", ""),
        (DOUBLE, lambda x: x.float().double(), "different", "float64-as-float32"),
        (DOUBLE, lambda x: x * 1.001, "different", ""),
        (SMALL, lambda x: torch.where(x.abs() < 1.1754943508222875e-38, 0.0, x), "different", "subnormal-as-zero"),
        (SMALL, lambda x: x * 1.1, "different", ""),
    ],
)
def test_numbers(outcome, of, change, expected, kind):
    here = outcome(of)
    found = verdict(of, changed(here, change), here)
    assert (found.outcome, found.kind) == (expected, kind), found


def test_the_largest_difference_is_a_share_of_the_larger_number(outcome):
    here = outcome(SUM)
    found = verdict(SUM, changed(here, lambda x: x.index_copy(0, torch.tensor([1]), x[1:2] * 2)), here)
    assert found.largest == pytest.approx(0.5) and "1 of 5 elements" in found.how
    assert verdict(SUM, changed(here, lambda x: x / 0), here).largest == math.inf


def test_numbers_that_only_one_generation_has(outcome):
    here = outcome(FP8)
    above = here["results"][0]["values"].float().abs() > 240
    assert above.any()
    there = changed(here, lambda x: torch.where(above, math.nan, x.float()).to(x.dtype))
    assert verdict(FP8, there, here).kind == "e4m3-range" and comparing.known("e4m3-range")


ERROR = {"error": {"type": "RuntimeError", "text": "no", "missing": False}}
MISSING = {"error": {"type": "UnknownOperatorError", "text": "this PyTorch has no operator", "missing": True}}


@pytest.mark.parametrize(
    ("there", "here", "expected"),
    [
        (ERROR, None, "refused there"),
        (None, ERROR, "refused here"),
        (ERROR, ERROR, "both refuse"),
        (MISSING, None, "unknown"),
        (None, MISSING, "unknown"),
    ],
)
def test_errors(outcome, there, here, expected):
    ours = outcome(SUM)
    assert verdict(SUM, there or ours, here or ours).outcome == expected


def test_what_one_device_permits_is_a_candidate_or_a_known_kind(outcome):
    here = outcome(SUM)
    assert verdict(SUM, ERROR, here).kind == "refused there"
    assert verdict(SELECT, ERROR, here).kind == "index-out-of-range"
    assert not comparing.known("refused there") and comparing.known("index-out-of-range")


@pytest.mark.parametrize("what", ["dtype", "shape"])
def test_forms(outcome, what):
    here = outcome(SUM)
    there = copy.deepcopy(here)
    there["results"][0][what] = {"dtype": "int32", "shape": [4]}[what]
    found = verdict(SUM, there, here)
    assert found.outcome == "different" and f"the {what} is" in found.how


DRAWN = {"deciles": [k / 10 for k in range(11)], "repeats": True}
NUMBERS = {"mean": 0.5, "rms": 1 / math.sqrt(3), "of": 65536}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "close"),
        ({"numbers": {**NUMBERS, "mean": 0.501}}, "close"),
        ({"numbers": {**NUMBERS, "mean": 0.52}}, "different"),
        ({"repeats": False}, "different"),
        ({"deciles": [(k / 10) ** 2 for k in range(11)]}, "different"),
    ],
)
def test_random_numbers_are_compared_by_their_distribution(changes, expected):
    one = {"dtype": "float32", "shape": [65536], "numbers": NUMBERS, **DRAWN}
    found = verdict(SUM, {"results": [{**one, **changes}]}, {"results": [one]})
    assert found.outcome == expected, found
