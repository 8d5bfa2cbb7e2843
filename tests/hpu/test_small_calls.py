"""The host computes a small value that it reads, from values that are ready, while the device is busy."""

import pytest
import torch

import habana_frameworks.torch.core as htcore
from openhpu._machine import usable_cores

from .support import capture, counted, in_threads, memory_in_use
from .test_reads import WRITES, a_sum, busy  # noqa: F401

pytestmark = pytest.mark.skipif(usable_cores() == 1, reason="on one core commands run where they are submitted")

INF, NAN = float("inf"), float("nan")


def computed(read):
    """The value of `read()`, and how many reads the host computed for it."""
    with counted() as work:
        value = read()
    return value, work["reads_computed_on_host"]


def sometimes(attempt):
    """Whether one of some attempts is true: a busy machine may keep the host until the device is done, not always."""
    return any(attempt() for _ in range(20))


@pytest.mark.parametrize(
    "question",
    [
        torch.isnan,
        torch.isinf,
        torch.isfinite,
        torch.abs,
        torch.neg,
        lambda x: torch.isfinite(x).all(),
        lambda x: x > 3,
        lambda x: x == x,
        lambda x: x / 8,
        lambda x: x * 3 + 1,
        lambda x: torch.maximum(x, -x),
        lambda x: torch.isnan(x) | torch.isinf(x),
    ],
)
def test_a_question_about_a_value_does_not_wait_for_what_is_queued_before_it(question, busy):  # noqa: F811
    expected = question(torch.tensor(10.0)).item()

    def is_early():
        made = a_sum()
        busy()
        answer, on_host = computed(lambda: question(made).item())
        early = not torch.hpu.current_stream().query()
        assert answer == expected
        torch.hpu.synchronize()
        assert question(made).item() == expected
        return early and on_host == 1

    assert sometimes(is_early)


def test_a_value_that_was_changed_in_place_before(busy):  # noqa: F811
    def is_early():
        loss = a_sum()
        loss *= 2
        htcore.mark_step()
        busy()
        answer, on_host = computed((loss > 19).item)
        assert answer is True
        torch.hpu.synchronize()
        return on_host == 1

    assert sometimes(is_early)


QUESTIONS = [
    torch.isnan,
    torch.isinf,
    torch.isfinite,
    torch.abs,
    lambda x: x == 0,
    lambda x: x < 1.6,
    lambda x: x * 3,
    lambda x: torch.logical_not(x),
    lambda x: (x != x).any(),
    lambda x: x.view(1)[0] + 0.1,
]
VALUES = [0.0, -0.0, 1.5, -3.0, INF, -INF, NAN]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int32])
def test_answers_are_those_of_the_cpu(dtype, busy):  # noqa: F811
    values = VALUES if dtype.is_floating_point else [0, 1, -3]
    for _ in range(2):  # first its shapes are new, and the host waits
        made = [torch.tensor(v, dtype=dtype, device="hpu") + torch.zeros((), dtype=dtype, device="hpu") for v in values]
        busy()
        for value, x in zip(values, made, strict=True):
            for question in QUESTIONS:
                answer = question(x).item()
                expected = question(torch.tensor(value, dtype=dtype)).item()
                assert answer == expected or (answer != answer and expected != expected)


@pytest.mark.parametrize("large", [True, False], ids=["by a large operator", "by a small one"])
@pytest.mark.parametrize("name", WRITES)
def test_operands_and_results_that_are_written_to(name, large, busy):  # noqa: F811
    for _ in range(3):  # first its shapes are new, and the host waits
        base = a_sum()
        x = base if large else base * 1
        busy()
        before = x * 2
        WRITES[name](x)
        after = x * 2
        assert (before.item(), after.item()) == (pytest.approx(20), pytest.approx(22))
        base = a_sum()
        x = base * 1
        before = x * 2
        WRITES[name](x)
        busy()
        assert (x.item(), before.item()) == (pytest.approx(11), pytest.approx(20))


def test_operands_that_a_replay_writes_to(busy):  # noqa: F811
    given = torch.zeros(4, device="hpu")
    graph, result = capture(lambda: (given + 1).sum() * 1)
    for i in range(3):
        before = result + 0
        given.fill_(i)
        busy()
        graph.replay()
        assert (result + 0).item() == 4 * (i + 1)
        assert i == 0 or before.item() == 4 * i


def test_operands_that_are_gone(busy):  # noqa: F811
    """Or are read in another thread."""
    for _ in range(3):
        made = a_sum()
        busy()
        assert ((made * 2 - 1).abs() + 3).item() == 22  # of the chain only its result is left
        made = a_sum()
        busy()
        asked = made * 2
        del made
        assert in_threads(asked.item) == [20]


def test_a_chain_has_an_end(busy):  # noqa: F811
    """What is kept of a running sum is bounded."""
    first = total = a_sum()
    for i in range(200):
        total = total + 1
        if i % 50 == 49:
            busy()
            value, on_host = computed(total.item)
            assert value == 11 + i
            assert on_host == 0  # the calls that lead here from `first` are forgotten
    assert first.item() == 10


def test_operands_are_not_kept():
    x = a_sum()
    before = memory_in_use()
    y = x * 2
    both = memory_in_use()
    del x
    assert both > before == memory_in_use()
    assert y.item() == 20


def test_values_of_storages_that_get_another_size(busy):  # noqa: F811
    for _ in range(3):
        x = a_sum() * 1
        busy()
        y = x * 2
        x.resize_(3)
        torch.add(torch.ones(3, device="hpu"), 1, out=x)
        z = x[2] * 2
        assert (y.item(), z.item()) == (20, 4)


@pytest.mark.usefixtures("strict_indices")
def test_an_error_of_the_command_that_made_an_operand_is_raised(busy):  # noqa: F811
    table = torch.ones(4, 2, device="hpu")
    for row in (1, 1, 9):
        loss = torch.nn.functional.embedding(torch.tensor([row], device="hpu"), table).sum()
        htcore.mark_step()
        busy()
        if row == 9:
            with pytest.raises(IndexError, match="index out of range"):
                torch.isnan(loss).item()
        assert not torch.isnan(loss).item()
