"""Plans: limits, candidates, what bounds a row, and the order of rows."""

import itertools

import pytest

from openhpu_predict.errors import PredictError
from openhpu_predict.serving import plan
from openhpu_predict.serving.plan import Candidate, Limits, Outcome, Times
from openhpu_predict.serving.settings import Errors

WANTED = Limits(0.5, 0.04, 0.9)
NONE, ERRORS = Errors(0.0, 0.0), Errors(0.25, 0.2)


def outcome(cards=1, seqs=16, times=((0.1, 0.02),) * 10, seconds=10.0, queue=0.0, **more):
    """Of requests with times to the first token and for each later one."""
    times = [Times(first, later, queue) for first, later in times]
    answers = {
        "seconds": seconds,
        "output_tokens_per_s": 100.0,
        "ttft": {"p90": max(one.ttft for one in times)},
        "tpot": {"p90": max((one.tpot for one in times if one.tpot), default=None)},
        "preemptions": 0,
        "host_busy": 0.1,
        "device_busy": 0.9,
        "prompt": {"seconds": 1.0, "engines": {"MME": 0.9}},
        "decode": {"seconds": 5.0, "engines": {"HBM": 0.7, "network": 0.3}},
    }
    return Outcome(Candidate(cards, seqs, "exp"), answers | more, times, 20)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ttft=500ms,tpot=40ms", Limits(0.5, 0.04, 0.9)),
        ("tpot=0.5s", Limits(float("inf"), 0.5, 0.9)),
        ("ttft=1.5s, share=99%", Limits(1.5, float("inf"), 0.99)),
    ],
)
def test_limits(text, expected):
    assert plan.limits(text) == pytest.approx(expected)


@pytest.mark.parametrize("text", ["", "ttft=500", "ttft=0ms", "share=90%", "ttft=1s,share=0%", "ttft=1.2.3s", "e2e=1s"])
def test_wrong_limits(text):
    with pytest.raises(PredictError, match="ttft=500ms"):
        plan.limits(text)


def test_candidates_are_all_combinations_and_equal_cards_do_not_follow_one_another():
    found = plan.candidates("2,1", "32,16", "exp,lin", [])
    assert len(set(found)) == 8
    assert all(one.cards != other.cards for one, other in itertools.pairwise(found))
    assert found[0].options == ["--tensor-parallel-size=1", "--max-num-seqs=16"]


@pytest.mark.parametrize(
    ("cards", "seqs", "buckets", "options", "words"),
    [
        ("1,x", "16", "exp", [], "--plan-cards is '1,x'"),
        ("1", "0", "exp", [], "--plan-max-num-seqs is '0'"),
        ("1", "16", "exp,best", [], "--plan-buckets has 'best'"),
        ("1", "16", "exp", ["--max-num-seqs=8"], "--max-num-seqs is what a plan searches"),
        ("1", "16", "exp", ["--tensor-parallel-size", "2"], "--tensor-parallel-size is what a plan searches"),
    ],
)
def test_wrong_candidates(cards, seqs, buckets, options, words):
    with pytest.raises(PredictError, match=words):
        plan.candidates(cards, seqs, buckets, options)


def test_goodput_counts_requests_that_meet_both_limits():
    one = outcome(times=[(0.1, 0.02), (0.6, 0.02), (0.1, 0.05), (0.1, None)])
    assert one.share(WANTED) == 0.5  # a request of one token has no later one
    assert one.goodput(WANTED) == pytest.approx(0.2)


@pytest.mark.parametrize(("later", "meets"), [(0.03, "yes"), (0.035, "likely"), (0.045, "perhaps"), (0.05, "no")])
def test_error_of_the_simulation_makes_a_range(later, meets):
    row = plan.row(outcome(times=[(0.1, later)] * 10), WANTED, ERRORS)
    assert row["meets"] == meets
    assert row["share_least"] <= row["share"] <= row["share_most"]


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (outcome(times=[(0.9, 0.02)] * 4, queue=0.8), "first token; 4 requests miss it: waits for a place"),
        (outcome(times=[(0.9, 0.02)] * 4, queue=0.1), "first token; 4 requests miss it: MME"),
        (outcome(times=[(0.1, 0.05)] * 4), "later token; 4 requests miss it: decodes, HBM"),
        (
            outcome(times=[(0.1, 0.05)] * 4, prompt={"seconds": 9.0, "engines": {"MME": 1.0}}),
            "prompts between the decodes, MME",
        ),
        (outcome(times=[(0.1, 0.05)] * 4, host_busy=0.95), "the host's share of a step"),
        (outcome(times=[(0.1, 0.03)] * 4), "later token; nearest: decodes, HBM"),
        (outcome(times=[(0.49, 0.01)] * 4), "first token; nearest: MME"),
    ],
)
def test_what_bounds_a_row(one, words):
    assert words in plan.bound(one, WANTED)


def test_fewest_cards_that_meet_the_limits_come_first():
    good, better = [(0.1, 0.02)] * 10, [(0.1, 0.01)] * 10
    rows = plan.ranked(
        [
            outcome(cards=8, times=better, seconds=1.0),
            outcome(cards=1, times=[(0.1, 0.05)] * 10),
            outcome(cards=2, seqs=16, times=good, seconds=9.0),
            outcome(cards=2, seqs=32, times=good, seconds=8.0),
            Outcome(Candidate(3, 16, "exp"), error="32 heads"),
        ],
        WANTED,
        NONE,
    )
    assert [(row["cards"], row["seqs"]) for row in rows] == [(2, 32), (2, 16), (8, 16), (1, 16), (3, 16)]
    assert rows[-1]["bound"] == "32 heads"


def test_text_of_a_plan_and_of_one_that_nothing_meets():
    rows = [outcome(), outcome(cards=2), Outcome(Candidate(3, 16, "exp"), error="32 heads")]
    found = plan.text(plan.summary(rows, WANTED, ERRORS, "tiny", "gaudi2", "made"))
    assert "first tokens within 500.0 ms and later tokens within 40.0 ms for 90% of the requests" in found
    assert "best: 1 cards, batch 16, buckets exp" in found
    assert "32 heads" in found
    failed = plan.text(plan.summary([outcome(times=[(9.0, 9.0)] * 3)], WANTED, ERRORS, "tiny", "gaudi2", "made"))
    assert "nothing meets the limits; the best row has 0% of the requests within them" in failed
    assert "it is bound by: first token; 3 requests miss it" in failed
