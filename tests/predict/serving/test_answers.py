"""Answers from a log."""

import pickle
from types import SimpleNamespace

import pytest
import torch

import openhpu_predict
from openhpu_predict.serving import answers
from openhpu_predict.serving.border import Border
from openhpu_predict.serving.log import Bucket, Call, Miss, Served, Step, Warmed
from openhpu_predict.serving.prices import GRAPHS, REGIONS, Price, Prices
from openhpu_predict.serving.section import document
from openhpu_predict.serving.settings import Settings

GIB = 2**30
LARGE, SMALL, DECODE = Bucket("prompt", 1, 512, 0), Bucket("prompt", 1, 128, 0), Bucket("decode", 4, 1, 16)


def border(how=REGIONS):
    """Two requests: of 3 tokens, and of 1."""
    found = Border(Prices(openhpu_predict.load("gaudi2"), 90 * GIB, how), Settings.stated(http=0.002))
    config = SimpleNamespace(
        model_config=SimpleNamespace(model="/models/tiny/"),
        cache_config=SimpleNamespace(enable_prefix_caching=True, num_gpu_blocks=100),
        scheduler_config=SimpleNamespace(
            async_scheduling=True, enable_chunked_prefill=True, max_num_seqs=4, max_num_batched_tokens=512
        ),
    )
    found.engine = SimpleNamespace(vllm_config=config)
    found.weights, found.cache = 10 * GIB, 60 * GIB
    log = found.log
    log.requests["0"] = Served("0", 0, 100, scheduled=0, first=10_000_000, last=30_000_000, tokens=3)
    log.requests["1"] = Served(
        "1", 5_000_000, 50, 10_000_000, 20_000_000, 20_000_000, tokens=1, cached=30, preemptions=1
    )
    log.steps = [
        Step(0, [Call(SMALL, 1, 100)], 10_000_000, 1, 1, 0.25),
        Step(10_000_000, [Call(SMALL, 1, 50), Call(DECODE, 1, 1)], 20_000_000, 2, 0, 0.5, ["1"]),
        Step(20_000_000, [Call(DECODE, 1, 1)], 30_000_000, 1, 0, 0.25),
    ]
    log.used.update({SMALL: 2, DECODE: 2})
    log.padding = {SMALL: [150, 256], DECODE: [2, 8]}
    log.warmed = {
        LARGE: Warmed(LARGE, 3, 200, 8 * GIB),
        SMALL: Warmed(SMALL, 3, 100, 6 * GIB),
        DECODE: Warmed(DECODE, 3, 300, 15 * GIB),
    }
    price = Price("forward", 0.004, 0.0, {"HBM": 0.003, "MME": 0.001}, {"layers.mlp": 0.004}, 0.5, 6 * GIB, [])
    found.spent = {("decode", (1,)): (price, 2)}
    found.clock.busy, found.clock.now = 15_000_000, 30_000_000
    return found


@pytest.fixture
def found():
    return answers.summary(border(), "made", False)


def test_times_to_the_first_and_of_each_later_token(found):
    assert found["ttft"]["median"] == 0.0145  # of 10 and 15 ms, and 2 ms of HTTP
    assert found["tpot"]["median"] == 0.01  # (30 - 10) / 2; a request of one token has none
    assert found["e2e"]["p99"] == pytest.approx(0.03185)
    assert found["queue"]["median"] == 0.0025


def test_http_is_a_share_of_each_first_token_and_of_each_request():
    without, given = border(), border()
    without.settings = Settings.stated()
    quick, slow = (answers.summary(one, "made", False) for one in (without, given))
    assert slow["ttft"]["http"] == 0.002
    for name in ("ttft", "e2e"):
        assert slow[name]["median"] - quick[name]["median"] == pytest.approx(0.002)
    for name in ("tpot", "queue"):
        assert slow[name] == quick[name]
    times = [[one["ttft_median"] for one in found["over_time"] if one["arrivals"]] for found in (quick, slow)]
    assert times[1] == pytest.approx([one + 0.002 for one in times[0]])


def test_throughput_counts_from_the_first_arrival_to_the_last_token(found):
    assert found["seconds"] == 0.03
    assert found["output_tokens_per_s"] == pytest.approx(4 / 0.03)
    assert found["requests_per_s"] == pytest.approx(2 / 0.03)
    assert found["device_busy"] == 0.5


def test_hits_and_preemptions(found):
    assert found["prefix_hits"]["share"] == 0.2
    assert found["preemptions"] == 1


def test_lengths_alone_say_that_nothing_can_hit():
    assert "nothing can hit" in answers.summary(border(), "made", True)["prefix_hits"]["note"]


def test_buckets_with_padding_and_those_never_used(found):
    assert found["buckets"]["unused"] == [["prompt", 1, 512, 0]]
    rows = {row["phase"]: row for row in found["buckets"]["rows"]}
    assert rows["decode"]["padding"] == 0.75
    assert rows["prompt"]["padding"] == pytest.approx(1 - 150 / 256)


def test_phases_by_engine_and_layer(found):
    assert found["decode"]["calls"] == 2
    assert found["decode"]["seconds_per_call"] == 0.004
    assert found["decode"]["engines"] == {"HBM": 0.75, "MME": 0.25}
    assert found["decode"]["without_a_cost_of_their_own"] == 0.5
    assert found["prompt"]["calls"] == 0


def test_warm_up_is_a_range(found):
    assert found["warmup"]["operators"] == 600
    assert found["warmup"]["seconds_least"] < 600 * 0.01 < found["warmup"]["seconds_most"]


def test_first_bucket_that_does_not_fit_a_card(found):
    """Regions share their memory: only the bucket that runs counts."""
    base = Settings.stated().runtime_bytes / GIB + 70
    peaks = [row["peak"] / GIB for row in found["memory"]["buckets"]]
    assert peaks == pytest.approx([base + 8, base + 6, base + 15])
    assert found["memory"]["first_that_does_not_fit"] == {"gaudi2": None, "gaudi3": None}


def test_captured_graphs_keep_their_memory():
    memory = answers.summary(border(GRAPHS), "made", False)["memory"]
    base = Settings.stated().runtime_bytes / GIB + 70
    assert [row["peak"] / GIB for row in memory["buckets"]] == pytest.approx([base + 8, base + 14, base + 29])
    assert memory["first_that_does_not_fit"] == {"gaudi2": ["decode", 4, 1, 16], "gaudi3": None}


def test_memory_of_what_was_used_of_the_cache(found):
    base = Settings.stated().runtime_bytes / GIB
    assert found["memory"]["peak_used"] / GIB == pytest.approx(base + 10 + 30 + 6)


def test_over_time(found):
    parts = found["over_time"]
    assert sum(one["arrivals"] for one in parts) == 2
    assert max(one["running"] for one in parts) == 2
    assert max(one["cache"] for one in parts) == 0.5
    assert sum(one["preemptions"] for one in parts) == 1


def test_text_names_mode_range_and_miss():
    given = border()
    given.log.misses.append(Miss(DECODE, "forward", "block_list: 32, not 16", 20_000_000, ["0"], 1, 100, 1.0))
    text = answers.text(answers.summary(given, "made", False))
    for words in (
        "torch.compile, asynchronous scheduling",
        "median 14.50 ms",
        "never used: 1 of 3 buckets",
        "block_list: 32, not 16",
        "1.0 s (0.4 to 5.0 s) of compilation",
        "requests 0",
        "assumed:",
    ):
        assert words in text


def test_section_of_the_report(found):
    section = document(found)
    assert section["title"] == "tiny on gaudi2, simulated"
    assert ("Requests", "2") in section["facts"]
    assert {name for name, _, _ in section["tables"]} >= {"Over time", "Buckets"}
    for _, head, rows in section["tables"]:
        assert all(len(row) == len(head) for row in rows)


def test_several_cards_are_named():
    given = border()
    given.cards.count = 4
    found = answers.summary(given, "made", False)
    assert answers.text(found).startswith("tiny on 4 x gaudi2, simulated")
    assert document(found)["title"] == "tiny on 4 x gaudi2, simulated"


def test_prices_go_to_another_process_and_back():
    sender, receiver = border(), border()
    with openhpu_predict.fake():
        result = (torch.empty(4, 8, dtype=torch.bfloat16), None)
    sender.prices.known[("forward", ((4,), torch.int32))] = Price("forward", 0.5, 0, {}, {}, 0, 7, [], result)
    receiver.take_prices(pickle.loads(pickle.dumps(sender.known_prices())))
    (price,) = receiver.prices.known.values()
    assert (price.seconds, price.workspace) == (0.5, 7)
    assert price.result[0].shape == (4, 8)
    assert price.result[0].dtype is torch.bfloat16
    assert price.result[0].device.type == "hpu"
    assert price.result[1] is None


def test_steps(found):
    rows = list(answers.steps(border()))
    assert [row["ready"] for row in rows] == [0.01, 0.02, 0.03]
    assert rows[1]["preempted"] == ["1"]
    assert rows[1]["calls"][1] == {"bucket": list(DECODE), "requests": 1, "tokens": 1}


@pytest.mark.parametrize(("part", "expected"), [(0.0, 1.0), (0.5, 2.5), (0.9, 3.7), (1.0, 4.0)])
def test_percentiles(part, expected):
    assert answers.percentile([1.0, 2.0, 3.0, 4.0], part) == pytest.approx(expected)


def test_no_request():
    assert answers.spread([]) == {"mean": None, "median": None, "p90": None, "p99": None}
