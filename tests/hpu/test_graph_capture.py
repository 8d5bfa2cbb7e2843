"""Capturing by hand and replaying: values, memory, random numbers, errors. Runs in eager and in lazy mode."""

import pytest
import torch

from tests.hpu.support import capture, in_threads, memory_in_use

HPUGraph, graph = torch.hpu.HPUGraph, torch.hpu.graph


def test_a_replay_runs_nothing_of_the_script(counted):
    calls = []

    def work(x):
        calls.append(1)
        return x.mul(3).sub(1)

    x = torch.ones(4, device="hpu")
    g, y = capture(lambda: work(x))
    with counted(graph_replays=7, ops_recorded=0, ops_submitted=0, ops_waited=0) as moved:
        for _ in range(7):
            g.replay()
    assert len(calls) == 1
    assert moved["ops_node_by_node"] + moved["ops_in_recipes"] == 14
    assert y.tolist() == [2, 2, 2, 2]


def test_new_shapes_do_not_split_the_capture(level, counted):
    # Sizes that nothing else uses: the operators' metadata is learned inside the capture.
    x = torch.full((3, 37), 2.0, device="hpu")
    with counted() as learned:
        g, y = capture(lambda: torch.cat([x.cumsum(1), x.t().reshape(3, 37)], 1).amax(1))
    # By running an operator, or, where others of its kind have run, by rehearsing it.
    assert learned["ops_waited"] + learned["ops_rehearsed"] >= 2
    assert g.describe()["operators"] >= 4
    expected = torch.full((3, 37), 2.0)
    torch.testing.assert_close(y.cpu(), torch.cat([expected.cumsum(1), expected], 1).amax(1))
    x.fill_(-1.0)
    g.replay()
    expected.fill_(-1.0)
    torch.testing.assert_close(y.cpu(), torch.cat([expected.cumsum(1), expected.t().reshape(3, 37)], 1).amax(1))


def test_what_died_during_the_capture_has_no_memory(level):
    x = torch.ones(1 << 16, device="hpu")
    torch.hpu.synchronize()
    before = memory_in_use()

    def work():
        y = x
        for _ in range(8):
            y = y * 1.5
        return y.sum()

    g, total = capture(work)
    assert memory_in_use() - before <= 1024  # the sum; each of the products takes 256 KiB
    assert g.describe()["results"] == 1
    g.replay()
    assert total.item() == pytest.approx((1.5**8) * (1 << 16))


def test_host_values_are_kept_as_they_were(level):
    x, host, factor = torch.ones(3, device="hpu"), torch.tensor([1.0, 2, 3]), torch.tensor(2.0)

    def work():
        x.copy_(host)
        return x * factor + torch.tensor(0.5, device="hpu")

    g, y = capture(work)
    for tensor in (host, factor, x, y):
        tensor.zero_()
    g.replay()
    assert x.tolist() == [1, 2, 3]
    assert y.tolist() == [2.5, 4.5, 6.5]


def test_other_threads_are_not_captured(level):
    x = torch.ones(4, device="hpu")
    g = HPUGraph()
    with graph(g):
        y = x + 1
        done = in_threads(lambda: (torch.full((4,), 3.0, device="hpu") * 2).tolist())
        y = y * 2
    assert done == [[6.0] * 4]
    assert g.describe()["operators"] == 2
    x.fill_(2)
    g.replay()
    assert y.tolist() == [6] * 4


def test_replay_from_another_thread(level):
    x = torch.ones(4, device="hpu")
    g, _ = capture(lambda: x.mul_(2))
    in_threads(*[lambda: [g.replay() for _ in range(3)]] * 2)
    assert x.tolist() == [128] * 4


def test_backward_is_captured(level):
    x = torch.tensor([1.0, 2, 3], device="hpu", requires_grad=True)
    with torch.hpu.stream(torch.hpu.Stream()):
        (x * x).sum().backward()  # autograd's node for x belongs to another stream than the capture
    x.grad = None
    g, _ = capture(lambda: (x**3).sum().backward())
    assert x.grad.tolist() == [3, 12, 27]
    with torch.no_grad():
        x.copy_(torch.tensor([2.0, 0, 1]))
    g.replay()
    assert x.grad.tolist() == [12, 0, 3]


def test_each_replay_draws_what_an_ungraphed_run_would():
    def work(x):
        noise = torch.rand_like(x)
        kept = torch.nn.functional.dropout(x, 0.5)
        return noise + kept, torch.randn(5, device="hpu"), torch.randperm(7, device="hpu")

    x = torch.ones(8, device="hpu")
    torch.manual_seed(5)
    expected = [[t.tolist() for t in work(x)] for _ in range(4)]
    after = torch.rand(3, device="hpu").tolist()
    torch.manual_seed(5)
    g, results = capture(lambda: work(x))
    seen = [[t.tolist() for t in results]]
    for _ in range(3):
        g.replay()
        seen.append([t.tolist() for t in results])
    assert seen == expected
    assert torch.rand(3, device="hpu").tolist() == after


@pytest.mark.parametrize("options", [{"dry_run": True}, {}], ids=["argument", "environment"])
def test_a_dry_run_changes_nothing(options, monkeypatch):
    if not options:
        monkeypatch.setenv("PT_HPUGRAPH_ENABLE_DRY_RUN", "1")
    x, total = torch.ones(3, device="hpu"), torch.zeros((), device="hpu")
    torch.manual_seed(1)
    state = torch.hpu.get_rng_state()
    g = HPUGraph()
    with graph(g, **options):
        x.add_(1)
        total += x.sum()
        noise = torch.rand(3, device="hpu")
    assert x.tolist() == [1, 1, 1]
    assert total.item() == 0
    assert torch.equal(torch.hpu.get_rng_state(), state)
    g.replay()
    assert x.tolist() == [2, 2, 2]
    assert total.item() == 6
    torch.manual_seed(1)
    assert noise.tolist() == torch.rand(3, device="hpu").tolist()


@pytest.mark.usefixtures("strict_indices")
def test_an_error_of_a_replayed_operator_names_its_line():
    x, rows = torch.arange(6.0, device="hpu").view(3, 2), torch.tensor([0, 1], device="hpu")

    def work():
        return x.index_select(0, rows)

    g, _ = capture(work)
    rows.fill_(9)
    g.replay()
    with pytest.raises((RuntimeError, IndexError), match=f"index_select.*line {work.__code__.co_firstlineno + 1}"):
        torch.hpu.synchronize()
    rows.fill_(0)
    g.replay()
    torch.hpu.synchronize()


def test_inputs_in_other_memory(level):
    x, y = torch.ones(4, device="hpu"), torch.full((4,), 2.0, device="hpu")
    g = HPUGraph()
    unused = torch.zeros(3, device="hpu")
    with graph(g):
        g.mark_user_inputs([x, y, unused])
        z = x * 10 + y
    assert g.get_user_input_match_indices() == [0, 1]
    a = torch.full((4,), 3.0, device="hpu")
    b = torch.full((8,), 4.0, device="hpu")[::2]
    c = unused.clone()
    g.replayV3([a, b, c])
    assert z.tolist() == [34] * 4
    assert x.tolist() == [1] * 4
    g.replayV2([x], [torch.full((4,), 7.0, device="hpu")])
    assert z.tolist() == [74] * 4  # b was copied to y, being laid out in another way
    for given, error, text in (
        ([torch.ones(5, device="hpu"), b, c], RuntimeError, r"input 0 was captured with shape \[4\] and dtype float"),
        ([a.int(), b, c], RuntimeError, r"input 0 was captured with shape \[4\] and dtype float"),
        ([a, b], RuntimeError, "expected 3 tensors"),
        ([torch.ones(4), b, c], TypeError, "expected tensors on hpu, got one on cpu"),
    ):
        with pytest.raises(error, match=text):
            g.replayV3(given)
    g.clear_inputs()
    with pytest.raises(RuntimeError, match="released by clear_inputs"):
        g.replay()
    g.replayV3([a, a, c])
    assert z.tolist() == [33] * 4


def test_results_that_nobody_needs_are_given_up(level):
    x = torch.ones(1 << 14, device="hpu")
    g, (a, b) = capture(lambda: (x + 1, x + 2))
    before = memory_in_use()
    del a
    assert memory_in_use() == before
    g.mark_user_outputs([b])
    assert memory_in_use() == before - (1 << 16)
    x.fill_(5)
    g.replay()
    assert b[0].item() == 7
    with pytest.raises(RuntimeError, match="have been marked"):
        g.mark_user_outputs([b])


def test_indexing_a_mask_by_numbers_is_captured(level):
    """Only masks among the indices make sizes depend on values."""
    mask = torch.tensor([[True, False], [False, True]], device="hpu")
    i, j = torch.tensor([0, 1], device="hpu"), torch.tensor([1, 1], device="hpu")
    g, out = capture(lambda: mask[i, j])
    i.zero_()
    g.replay()
    assert out.tolist() == [False, False]
