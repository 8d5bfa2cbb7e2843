"""Inputs that are made by rules: the same bits everywhere, since a recording only names the rule."""

import hashlib

import pytest
import torch

from openhpu_record.made import PERIOD, RULES, made
from openhpu_record.tensors import raw

# Of 200 numbers. A change of one makes every recording before it worthless.
BITS = {
    ("plain", "float32"): "977721bd",
    ("plain", "bfloat16"): "45b63c3b",
    ("plain", "float8_e4m3fn"): "1dce03b6",
    ("plain", "complex64"): "7a55858d",
    ("plain", "float16"): "2490074d",
    ("positive", "float32"): "576aaeb8",
    ("positive", "bfloat16"): "a30aeedf",
    ("unit", "float32"): "dfae9965",
    ("unit", "bfloat16"): "381551a3",
    ("share", "float32"): "d3780b9f",
    ("share", "bfloat16"): "334057fc",
    ("large", "float32"): "1e0e1d86",
    ("large", "bfloat16"): "08fb2276",
    ("small", "float32"): "3daa8839",
    ("small", "bfloat16"): "b10fc3a0",
    ("rounding", "float32"): "486f9288",
    ("rounding", "bfloat16"): "4371528f",
    ("rounding", "float8_e4m3fn"): "318a3421",
    ("rounding", "complex64"): "4ee26c06",
    ("rounding", "float16"): "f2cad275",
    ("edge", "float32"): "b9f79625",
    ("edge", "bfloat16"): "ad7661b7",
    ("same", "float32"): "1b1a031a",
    ("same", "bfloat16"): "1be972da",
    ("whole", "int64"): "fcddf2de",
    ("count", "int64"): "a4bb486e",
    ("whole_edge", "int64"): "1229d450",
    ("wide", "int64"): "fe9a31bd",
    ("index", "int64"): "21ad8c51",
    ("distinct", "int64"): "73ab85de",
    ("outside", "int64"): "d17942da",
    ("past", "int64"): "d526df0b",
    ("truth", "bool"): "b2718b7b",
}


def bits(rule, dtype):
    return hashlib.blake2b(raw(made(rule, 7, dtype, [8, 25], 13)), digest_size=4).hexdigest()


@pytest.mark.parametrize(("rule", "dtype", "expected"), [(*key, value) for key, value in BITS.items()])
def test_the_numbers_of_a_rule_never_change(rule, dtype, expected):
    assert bits(rule, getattr(torch, dtype)) == expected


def test_every_rule_has_numbers_that_are_kept():
    assert {rule for rule, _ in BITS} == RULES.keys()


def test_generators_are_neither_read_nor_moved():
    torch.manual_seed(1)
    one = made("plain", 3, torch.float32, [50])
    torch.manual_seed(2)
    state = torch.get_rng_state()
    assert torch.equal(made("plain", 3, torch.float32, [50]), one)
    assert torch.equal(torch.get_rng_state(), state)


def test_seeds_and_places_give_other_numbers():
    one = made("plain", 3, torch.float64, [1000])
    assert not torch.equal(one, made("plain", 4, torch.float64, [1000]))
    assert len(one.unique()) > 700
    assert abs(float(one.mean())) < 0.2


def test_a_large_tensor_repeats_what_a_small_one_has():
    large = made("plain", 3, torch.bfloat16, [3, PERIOD])
    assert torch.equal(large[2], large[0])
    assert torch.equal(large[1, :100], made("plain", 3, torch.bfloat16, [100]))


@pytest.mark.parametrize(("rule", "low", "high"), [("index", 0, 12), ("outside", -14, 14), ("past", 0, 15)])
def test_indices_lie_within_their_bound_or_just_outside(rule, low, high):
    found = made(rule, 5, torch.int64, [1000], 13)
    assert (int(found.min()), int(found.max())) == (low, high)


def test_distinct_indices_are_a_permutation():
    assert made("distinct", 5, torch.int64, [13], 13).sort()[0].tolist() == list(range(13))


def test_edges_hold_what_formats_differ_in():
    found = made("edge", 5, torch.float32, [200])
    assert found.isnan().any() and found.isinf().any() and (found == 448).any()
    assert ((found != 0) & (found.abs() < torch.finfo(torch.float32).tiny)).any()
