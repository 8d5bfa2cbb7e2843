"""Memory that runs out at any moment: each allocation of a scenario fails in turn.

The error is torch.OutOfMemoryError, what was computed before keeps its values, and the next step gives the CPU's.
"""

# ruff: noqa: B023 - what a scenario defines in a loop it calls there
import copy
import itertools
from contextlib import contextmanager

import pytest
import torch
from torch import nn

from openhpu import _C

from .support import capture, loss_of, make, to_cpu, train_step

POOLS = {"memory": False, "workspace": True}
# One allocation fails, so that a second attempt finds memory; or all do from one on, so that none does.
TIMES = {"once": 1, "for good": 1 << 40}


@pytest.fixture(autouse=True)
def nothing_fails_afterwards():
    yield
    for workspace in POOLS.values():
        _C.fail_allocations(0, workspace, 0)


class Walk:
    """`for attempt in walk:` with the first, the second, ... allocation failing, until `attempt` needs no more."""

    def __init__(self, workspace, times):
        self.workspace = workspace
        self.times = times
        self.failures = 0  # attempts in which an allocation was made to fail
        self.errors = 0

    def __iter__(self):
        for self.first in itertools.count(1):
            self.injected = None
            yield self
            assert self.injected is not None, "nothing was attempted"
            if self.injected == 0:
                break
        assert self.failures > 0, "the scenario allocates nothing"

    def run(self, action, again=lambda: None):
        """What `action` returns, up to its end on the device; after the error that is expected of it, once more.

        `again` makes good what the attempt that failed has left.
        """

        def whole():
            result = action()
            torch.hpu.synchronize()
            return result

        torch.hpu.synchronize()
        _C.fail_allocations(0, self.workspace, self.first, self.times)
        try:
            return whole()
        except torch.OutOfMemoryError as caught:
            error = str(caught)
        finally:
            self.injected = _C.fail_allocations(0, self.workspace, 0)
            self.failures += self.injected > 0
        assert self.injected > 0, f"an error that nothing caused: {error}"
        assert "Allocation failed" in error
        self.errors += 1
        again()
        return whole()


@pytest.fixture(params=TIMES)
def times(request):
    return TIMES[request.param]


@pytest.fixture(params=POOLS)
def walk(request, times):
    return Walk(POOLS[request.param], times)


@pytest.fixture
def memory_walk(times):
    return Walk(False, times)


@pytest.fixture
def live():
    """Results of which some have run, and some may only be recorded; checked at the end of each attempt."""

    @contextmanager
    def checked():
        x = torch.arange(64.0, device="hpu")
        done = x * 2
        torch.hpu.synchronize()
        recorded = done + x
        yield
        for k, value in enumerate((x, done, recorded), start=1):
            assert torch.equal(value.cpu(), torch.arange(64.0) * k)

    return checked


def agree(actual, expected):
    torch.testing.assert_close(to_cpu(actual), to_cpu(expected), rtol=1e-4, atol=1e-5)


def weights(model):
    return list(model.parameters())


@pytest.mark.parametrize("name", ["mlp", "convnet"])
def test_a_step_of_training(name, memory_walk, live):
    cpu = make(name, torch.optim.SGD, "cpu")
    start = {key: value.clone() for key, value in cpu[0].state_dict().items()}
    expected = [train_step(*cpu), *weights(cpu[0])]
    model, optimizer, x, target = make(name, torch.optim.SGD, steps=1)
    for attempt in memory_walk:
        optimizer.zero_grad()
        model.load_state_dict(start)
        losses = []

        def run():
            if not losses:
                losses.append(train_step(model, optimizer, x, target))

        def again():
            if not losses:  # an operator was refused: nothing has been updated, and the step is done again
                agree(weights(model), [start[key] for key, _ in model.named_parameters()])

        with live():
            attempt.run(run, again)
        agree([losses[0], *weights(model)], expected)


def test_temporaries_of_kernels(times, live):
    """What a kernel needs for itself: the error comes at the next synchronisation, as that of any kernel."""
    walk = Walk(True, times)
    model, _, x, target = make("convnet")
    expected = loss_of(*make("convnet", device="cpu")[:1], x.cpu(), target.cpu())
    loss_of(model, x, target).backward()

    def run():
        loss = loss_of(model, x, target)
        loss.backward()
        return loss

    for attempt in walk:
        model.zero_grad()
        with live():
            loss = attempt.run(run)
        agree(loss, expected)
    assert walk.errors > 0


def test_operators_that_are_learned(walk, live):
    """Sizes and operators that are new: the host waits, and makes what the worker left its own."""
    sizes = itertools.count(3)
    for attempt in walk:
        n = next(sizes)
        x = torch.linspace(-1, 1, n * 7, device="hpu").view(n, 7)
        written = torch.zeros(n, device="hpu")
        out = torch.empty(0, device="hpu")

        def run():
            torch.sum(x, 1, out=out)
            written.add_(1)
            values, indices = torch.sort(x, 1, descending=True)
            return torch.nn.functional.softmax(values.cumsum(0), 1), indices, out + written

        def again():
            written.zero_()
            out.resize_(0)

        with live():
            result = attempt.run(run, again)
        x_cpu = torch.linspace(-1, 1, n * 7).view(n, 7)
        values, indices = torch.sort(x_cpu, 1, descending=True)
        agree(list(result), [values.cumsum(0).softmax(1), indices, x_cpu.sum(1) + 1])


def test_a_result_that_was_to_be_resized_keeps_its_size(memory_walk):
    x = torch.linspace(-1, 1, 512, device="hpu")

    def empty():
        return torch.empty(0, device="hpu"), torch.empty(0, dtype=torch.int64, device="hpu")

    torch.sort(x, out=empty())
    for attempt in memory_walk:
        out = empty()
        done = []

        def run():
            if not done:
                done.append(torch.sort(x, out=out))

        def again():
            assert done or out[0].shape == out[1].shape == (0,)

        attempt.run(run, again)
        agree(out[0], torch.linspace(-1, 1, 512))


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_capture_by_hand(walk, live, dry_run):
    x, count = torch.linspace(-1, 1, 64, device="hpu"), torch.zeros(64, device="hpu")

    def step():
        y = x * 2
        count.add_(1)
        return (y + count).tanh(), y.sum()

    step()
    for attempt in walk:
        count.zero_()
        torch.hpu.synchronize()
        graph = torch.hpu.HPUGraph()
        stream = torch.hpu.current_stream()

        def run():
            with torch.hpu.graph(graph, dry_run=dry_run):
                return step()

        def again():
            assert torch.hpu.current_stream() == stream
            assert not torch.hpu.is_current_stream_capturing()
            assert not graph.captured() or attempt.workspace  # a kernel may fail after it was captured
            torch.hpu.synchronize()
            if dry_run and not graph.captured():
                assert count.tolist() == [0.0] * 64  # nothing was changed by a dry run that failed
            graph.reset()
            if attempt.workspace:
                count.zero_()

        with live():
            result = attempt.run(run, again)
            before = count[0].item()
            graph.replay()
        assert count.tolist() == [before + 1] * 64
        x_cpu = torch.linspace(-1, 1, 64)
        agree(list(result), [(x_cpu * 2 + before + 1).tanh(), (x_cpu * 2).sum()])


@pytest.mark.parametrize("transient", [False, True])
def test_a_module_wrapped_in_graphs(walk, live, transient):
    """Its first call captures in a dry run and replays; what it writes in place is written once."""

    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(16, 16)
            self.register_buffer("calls", torch.zeros(16))

        def forward(self, x):
            self.calls.add_(1)
            return self.linear(x).tanh() + self.calls, x.sum()

    plain = Counting().eval()
    model = copy.deepcopy(plain).to("hpu")
    x = torch.linspace(-1, 1, 64).view(4, 16)
    given = x.to("hpu")
    with torch.no_grad():
        model(given)
        for attempt in walk:
            model.calls.zero_()
            plain.calls.zero_()
            graphed = torch.hpu.wrap_in_hpu_graph_func(model.forward, disable_tensor_cache=transient)

            def again():
                assert not torch.hpu.is_current_stream_capturing()
                torch.hpu.synchronize()
                if not attempt.workspace:
                    assert model.calls.tolist() == [0.0] * 16
                model.calls.zero_()

            with live():
                result = attempt.run(lambda: graphed(given), again)
            agree([*result, model.calls], [*plain(x), plain.calls])
            agree(graphed(given), plain(x))


def test_replays(walk, live):
    x = torch.linspace(-1, 1, 64, device="hpu")
    strided = torch.linspace(-1, 1, 128, device="hpu")[::2]

    def work(x):
        return x.view(8, 8).t() @ x.view(8, 8), x.sort()[0]

    def steps(x):
        return x * 2, (x * 2).cumsum(0)

    graphed = torch.hpu.wrap_in_hpu_graph_func(work, disable_tensor_cache=True)
    graph, replayed = capture(lambda: steps(x))
    graphed(x)

    def run():
        graph.replay()
        return [*graphed(x), *graphed(strided)]

    run()
    for attempt in walk:
        with live():
            result = attempt.run(run)
        agree([*result, *replayed], [*work(x.cpu()), *work(strided.cpu().clone()), *steps(x.cpu())])
