"""Traffic of files and generators."""

import itertools
import json
import statistics

import pytest

from openhpu_predict.errors import PredictError
from openhpu_predict.serving import traffic

HEAD = "Timestamp,Model,Request tokens,Response tokens"  # of BurstGPT


def written(tmp_path, text, name="trace.jsonl"):
    path = tmp_path / name
    path.write_text(text)
    return path


def test_lengths(tmp_path):
    path = written(tmp_path, '{"arrival": 2, "input": 7, "output": 3}\n\n{"arrival": 0.5, "input": 5, "output": 1}\n')
    found = traffic.read(path)
    assert [(one.arrival, one.length, one.output) for one in found] == [(0.5, 5, 1), (2.0, 7, 3)]


def test_names_and_units_of_vllms_timed_traces(tmp_path):
    row = {"timestamp": 1500, "input_length": 20, "output_length": 4, "hash_ids": [7, 8]}
    (one,) = traffic.read(written(tmp_path, json.dumps(row)), block=16, multiplier=0.001)
    assert (one.arrival, one.length, one.output, one.blocks) == (1.5, 20, 4, [7, 8])


def test_vllms_custom_format_with_a_tokenizer(tmp_path):
    path = written(tmp_path, '{"prompt": "a b c", "output_tokens": 5}')
    (one,) = traffic.read(path, tokenize=lambda text: [len(word) for word in text.split()])
    assert (one.tokens, one.length, one.output) == ([1, 1, 1], 3, 5)


def test_burst_gpt(tmp_path):
    rows = [
        "Timestamp,Model,Request tokens,Response tokens",
        "1,GPT-4,10,2",
        "2,ChatGPT,9,1",
        "3,GPT-4,8,0",
        "4,GPT-4,7,3",
    ]
    found = traffic.read(written(tmp_path, "\n".join(rows), "burst.csv"))
    assert [(one.arrival, one.length, one.output) for one in found] == [(1.0, 10, 2), (4.0, 7, 3)]


def test_saved_results_of_vllm_bench_serve(tmp_path):
    saved = {"input_lens": [5, 6], "output_lens": [2, 0], "start_times": [100.5, 100.25]}
    found = traffic.read(written(tmp_path, json.dumps(saved), "saved.json"))
    assert [(one.arrival, one.length, one.output) for one in found] == [(0.0, 6, 1), (0.25, 5, 2)]


GOOD = '{"arrival": 0, "input": 5, "output": 1}\n'


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", ["trace.jsonl:2", "not JSON"]),
        ("[1]", ["trace.jsonl:2", "list", "object"]),
        ('{"arrival": 0, "output": 1}', ["trace.jsonl:2", "input, input_length", "arrival, output"]),
        ('{"arrival": 0, "input": 5}', ["trace.jsonl:2", "output"]),
        ('{"arrival": -1, "input": 5, "output": 1}', ["trace.jsonl:2", "arrival is -1", "at least 0"]),
        ('{"arrival": NaN, "input": 5, "output": 1}', ["trace.jsonl:2", "arrival is nan"]),
        ('{"arrival": 0, "input": 0, "output": 1}', ["trace.jsonl:2", "input is 0", "at least 1"]),
        ('{"arrival": 0, "input": 5.5, "output": 1}', ["trace.jsonl:2", "whole number"]),
        ('{"arrival": 0, "input": true, "output": 1}', ["trace.jsonl:2", "input is True"]),
        ('{"arrival": 0, "input": 99999999, "output": 1}', ["trace.jsonl:2", "at most"]),
        ('{"arrival": 0, "prompt_token_ids": [1, "a"], "output": 1}', ["trace.jsonl:2", "list of whole numbers"]),
        ('{"arrival": 0, "prompt": "text", "output": 1}', ["trace.jsonl:2", "no tokenizer"]),
        ('{"arrival": 0, "input": 5, "output": 1, "hash_ids": "a"}', ["trace.jsonl:2", "hash_ids"]),
        ('{"arrival": 0, "input": 500, "output": 1, "hash_ids": [1]}', ["blocks of 16", "chunk-hash-size"]),
    ],
)
def test_broken_line_is_named_with_its_reason(tmp_path, line, words):
    with pytest.raises(PredictError) as raised:
        traffic.read(written(tmp_path, GOOD + line + "\n"))
    for word in words:
        assert word in str(raised.value)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("empty.jsonl", "\n", ["no request"]),
        ("burst.csv", "a,b\n1,2\n", ["no column", "BurstGPT"]),
        ("burst.csv", "Timestamp,Model,Request tokens,Response tokens\nx,GPT-4,1,1\n", ["burst.csv:2"]),
        (
            "burst.csv",
            "Timestamp,Model,Request tokens,Response tokens\n1,GPT-4,-1,1\n",
            ["burst.csv:2", "out of range"],
        ),
        ("saved.json", "[]", ["input_lens"]),
        ("saved.json", '{"input_lens": [1], "output_lens": []}', ["input_lens"]),
        ("saved.json", "{", ["saved.json:1"]),
    ],
)
def test_broken_file(tmp_path, name, text, words):
    with pytest.raises(PredictError) as raised:
        traffic.read(written(tmp_path, text, name))
    for word in words:
        assert word in str(raised.value)


def test_missing_file(tmp_path):
    with pytest.raises(PredictError, match="can't be read: No such file"):
        traffic.read(tmp_path / "none.jsonl")


def test_file_that_is_no_text(tmp_path):
    path = tmp_path / "trace.jsonl"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(PredictError, match="no text"):
        traffic.read(path)


@pytest.mark.parametrize("vocabulary", [20, 512, 128256])
def test_prompts_of_lengths_share_no_first_block(vocabulary):
    found = traffic.generate(300, 16, 1)
    prompts = [one.prompt(number, 16, vocabulary) for number, one in enumerate(found)]
    assert all(len(one) == 16 and max(one) < vocabulary for one in prompts)
    assert len({tuple(one[:8]) for one in prompts}) == 300


def test_prompts_with_equal_blocks_have_equal_tokens():
    left = traffic.Request(0, 40, 1, blocks=[1, 2, 3]).prompt(0, 16, 512)
    right = traffic.Request(0, 40, 1, blocks=[1, 2, 4]).prompt(1, 16, 512)
    assert left[:32] == right[:32]
    assert left[32:] != right[32:]
    assert len(left) == len(right) == 40


def test_prompts_with_a_common_prefix():
    found = traffic.generate(3, 50, 1, prefix=20)
    prompts = [one.prompt(number, 20, 512) for number, one in enumerate(found)]
    assert len({tuple(one[:20]) for one in prompts}) == 1
    assert len({tuple(one[20:]) for one in prompts}) == 3
    assert {len(one) for one in prompts} == {50}


def test_equal_seeds_give_equal_traffic():
    assert traffic.generate(50, 100, 10, 5.0, spread=0.5, seed=3) == traffic.generate(
        50, 100, 10, 5.0, spread=0.5, seed=3
    )
    assert traffic.generate(50, 100, 10, 5.0, seed=3) != traffic.generate(50, 100, 10, 5.0, seed=4)


def test_poisson_and_bursts_have_the_rate():
    for burstiness, deviation in ((1.0, 1.0), (0.25, 2.0)):
        found = traffic.generate(20_000, 1, 1, 10.0, burstiness)
        gaps = [b.arrival - a.arrival for a, b in itertools.pairwise(found)]
        assert statistics.fmean(gaps) == pytest.approx(0.1, rel=0.05)
        assert statistics.stdev(gaps) == pytest.approx(0.1 * deviation, rel=0.1)


def test_without_a_rate_all_arrive_at_once():
    assert {one.arrival for one in traffic.generate(9, 1, 1)} == {0.0}


def test_lengths_vary_within_the_ratio():
    lengths = {one.length for one in traffic.generate(500, 100, 10, spread=0.2)}
    assert min(lengths) >= 80
    assert max(lengths) <= 120
    assert len(lengths) > 20


@pytest.mark.parametrize(
    ("changed", "name"),
    [
        ({"number": 0}, "--num-prompts"),
        ({"length": 0}, "--random-input-len"),
        ({"output": 0}, "--random-output-len"),
        ({"rate": 0.0}, "--request-rate"),
        ({"rate": float("nan")}, "--request-rate"),
        ({"burstiness": 0.0}, "--burstiness"),
        ({"spread": 1.0}, "--random-range-ratio"),
        ({"prefix": 99}, "--random-prefix-len"),
    ],
)
def test_wrong_request_for_traffic(changed, name):
    with pytest.raises(PredictError, match=name):
        traffic.generate(**{"number": 1, "length": 10, "output": 1} | changed)
