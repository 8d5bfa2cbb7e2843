"""Numbers that do not fit into an integer: a recipe gives what single operators give, at each length of vectors."""

import torch

import habana_frameworks.torch.core as htcore
from openhpu import _C, settings

from .test_compiled_same_bits import LIMITS

NUMBERS = [
    300.0, -300.0, 127.9, -129.0, 255.9, 1e5, 70001.0, 2.0**31, -3e9, 2.0**32 + 5, 1e10, 1e20, -1e20,
    float("inf"), -float("inf"), float("nan"), -0.0,
]  # fmt: skip
LENGTHS = (*range(2, 71), 127, 128, 129, 130, 1000, 1)  # a graph that was first seen with 1 is compiled for each


def inputs(length, device):
    doubles = torch.tensor(NUMBERS, dtype=torch.float64).repeat(60)[length % len(NUMBERS) :][:length]
    kept = torch.zeros(length, dtype=torch.int8)
    return [t.to(device) for t in (doubles.float(), doubles, doubles.bfloat16(), kept)]


def convert(singles, doubles, halves, kept):
    kept.copy_(singles)
    scaled = singles * 2
    return (
        kept,
        *(scaled.to(dtype) for dtype in (torch.int8, torch.uint8, torch.int32, torch.int64)),
        *(doubles.to(dtype) for dtype in (torch.int8, torch.uint8, torch.int16, torch.int32)),
        halves.neg().to(torch.int8),
        scaled.to(torch.int8).sum(),
    )


def test_a_recipe_has_the_numbers_of_single_operators(counted):
    given = {length: inputs(length, "hpu") for length in LENGTHS}
    torch.hpu.synchronize()
    policy, recipes = settings.get("OPENHPU_COMPILE"), 0
    try:
        for way in ("off", "sync"):
            _C.configure_graphs(way, *LIMITS)
            for length in LENGTHS:
                with counted() as moved:
                    results = convert(*given[length])
                    htcore.mark_step()
                    results = [t.cpu() for t in results]
                if way == "sync":
                    assert moved["ops_in_recipes"] == moved["ops_recorded"] > 0
                    recipes += moved["recipes_compiled"]
                for k, (actual, expected) in enumerate(zip(results, convert(*inputs(length, "cpu")), strict=True)):
                    assert torch.equal(actual, expected), (way, length, k, expected.dtype)
    finally:
        _C.configure_graphs(policy, *LIMITS)
    assert recipes == 3  # for the first length, for all, and for a single number
