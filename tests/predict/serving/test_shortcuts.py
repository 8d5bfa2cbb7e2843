"""Inputs of decodes, without vLLM."""

import dataclasses
import types

import numpy
import pytest

from openhpu_predict.serving.shortcuts import Shortcuts


@dataclasses.dataclass
class Decode:
    """The plugin's inputs of a decode."""

    num_decodes: int


def buckets(batch, blocks):
    """Powers of two."""
    return 1 << (batch - 1).bit_length(), 1, 1 << (blocks - 1).bit_length()


def runner(**more):
    """What a decode's inputs ask of the plugin's runner; blocks have 128 tokens."""
    manager = types.SimpleNamespace(find_decode_bucket=buckets)
    found = {"use_contiguous_pa": False, "interleaved_sliding_window": False, "model_has_chunked_attention": False}
    return types.SimpleNamespace(bucketing_manager=manager, attn_block_size=128, **(found | more))


def made(runner, calls):
    """The inputs of decodes with these contexts, and for which counts the plugin made them."""
    counts = []

    def original(_runner, count, *_rest):
        counts.append(count)
        return Decode(count)

    create = Shortcuts().decode_inputs(original)
    found = [create(runner, len(context), [tokens] * 8, numpy.array(context), None) for context, tokens in calls]
    assert [one.num_decodes for one in found] == [len(context) for context, _ in calls]
    return counts


def test_inputs_of_a_decode_are_made_once_for_a_bucket():
    calls = [([100, 100, 100], 1), ([101, 127, 120], 1), ([1, 2, 3, 4], 1), ([128, 127, 127, 127], 1), ([100], 1)]
    assert made(runner(), calls) == [3, 4, 1]


@pytest.mark.parametrize("name", ["use_contiguous_pa", "interleaved_sliding_window", "model_has_chunked_attention"])
def test_inputs_whose_shapes_depend_on_more_than_the_bucket_are_made_each_time(name):
    calls = [([100], 1), ([100], 1)]
    assert made(runner(**{name: True}), calls) == [1, 1]
    assert made(runner(), [([100], 2), ([100], 2)]) == [1, 1]


def test_sampling_is_prepared_once_for_a_number_of_rows():
    counts = []
    prepare = Shortcuts().sampling(lambda _runner, _changed, names, rows, _wanted: counts.append(rows) or names)
    assert [prepare(None, True, names, rows) for names, rows in (("a", 1), ("b", 1), ("c", 2))] == ["a", "a", "c"]
    assert counts == [1, 2]
