"""The buckets that a trace needs."""

import ast
from collections import Counter

from openhpu_predict.serving import buckets
from openhpu_predict.serving.log import Bucket

SMALL, MIDDLE, LARGE = (Bucket("decode", 4, 1, blocks) for blocks in (16, 32, 64))
PROMPT = Bucket("prompt", 1, 512, 0)


def test_most_used_buckets_that_have_the_share():
    used = Counter({MIDDLE: 900, LARGE: 96, SMALL: 4})
    assert buckets.chosen(used, 0.99) == [MIDDLE, LARGE]
    assert buckets.chosen(used, 1.0) == [MIDDLE, LARGE, SMALL]


def test_no_call_is_left_without_a_larger_bucket():
    used = Counter({SMALL: 990, MIDDLE: 5, LARGE: 3, PROMPT: 2})
    kept = buckets.chosen(used, 0.9)
    assert kept[0] == SMALL
    assert set(kept[1:]) == {LARGE, PROMPT}  # the largest serves the middle one, too


def test_list_as_the_plugin_reads_it():
    used = Counter({SMALL: 99, PROMPT: 1})
    found = {"model": "tiny", "device": "gaudi2", "traffic": "made", "buckets": {"warmed": 96}}
    text, sentence = buckets.listed(found, used, 0.99)
    rows = [ast.literal_eval(line) for line in text.splitlines() if not line.startswith("#")]
    assert rows == [(4, 1, 16), (1, 512, 0)]
    assert sentence == "2 buckets of 96 of the warm-up serve 100.0% of the calls"
