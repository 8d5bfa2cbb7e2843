"""openhpu.compile_step: a whole training step as one graph."""

import copy

import pytest
import torch
from torch import nn

import openhpu
from openhpu.capture.compiled_steps import StepError
from tests.hpu.support import line, loss_of, make, train_step


def pair(name, optimizer=torch.optim.SGD, **settings):
    """The same setting on hpu and on the CPU."""
    return make(name, optimizer, **settings), make(name, optimizer, device="cpu", **settings)


def assert_same_weights(ours, theirs, **tolerance):
    for a, b in zip(ours.state_dict().values(), theirs.state_dict().values(), strict=True):
        torch.testing.assert_close(a.cpu(), b, **(tolerance or {"rtol": 1e-4, "atol": 1e-5}))


@pytest.mark.parametrize("name", ["mlp", "convnet", "gpt"])
def test_a_step_agrees_with_the_cpu(name, counted):
    hpu, cpu = pair(name, momentum=0.9)
    step = openhpu.compile_step(train_step)
    for k in range(6):
        with counted() as moved:
            loss = step(hpu[0], hpu[1], hpu[2] * (1 + k / 10) if hpu[2].is_floating_point() else hpu[2], hpu[3])
        x = cpu[2] * (1 + k / 10) if cpu[2].is_floating_point() else cpu[2]
        torch.testing.assert_close(loss.cpu(), train_step(cpu[0], cpu[1], x, cpu[3]), rtol=1e-4, atol=1e-5)
    assert moved["graph_replays"] == 1 and moved["graphs_captured"] == 0
    assert moved["ops_submitted"] + moved["ops_waited"] <= 1  # the input's own multiplication
    assert step.statistics() == {"calls": 6, "eager": 1, "captured": 1, "replayed": 4, "captures": 1}
    assert_same_weights(hpu[0], cpu[0])


def test_clipping_and_adamw():
    (model, optimizer, x, target), (reference, other, x_cpu, target_cpu) = pair("mlp", torch.optim.AdamW)

    def work(model, optimizer, x, target):
        optimizer.zero_grad()
        loss = loss_of(model, x, target)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        return {"loss": loss, "norm": norm, "k": 3}

    step = openhpu.compile_step(work)
    for _ in range(5):
        ours, theirs = step(model, optimizer, x, target), work(reference, other, x_cpu, target_cpu)
        assert ours["k"] == 3 and not ours["loss"].requires_grad
        torch.testing.assert_close(ours["loss"].cpu(), theirs["loss"].detach(), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(ours["norm"].cpu(), theirs["norm"], rtol=1e-3, atol=1e-5)
    assert optimizer.state[model[0].weight]["step"].item() == 5
    for p, q in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(p.grad.cpu(), q.grad, rtol=1e-3, atol=1e-5)


def test_closures_and_globals_are_watched():
    model, optimizer, x, target = make("mlp")
    other, other_optimizer, _, _ = make("mlp", device="cpu")

    @openhpu.compile_step
    def step(x, target):
        return train_step(model, optimizer, x, target)

    for k in range(8):
        if k == 4:
            for o in (optimizer, other_optimizer):
                o.param_groups[0]["lr"] = 0.001
        ours = step(x, target)
        theirs = train_step(other, other_optimizer, x.cpu(), target.cpu())
        torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-4, atol=1e-5)
    assert step.statistics()["captured"] == 2 and step.statistics()["replayed"] == 5
    model.eval()
    step(x, target)
    assert step.statistics()["captured"] == 3


def test_a_scheduler_beside_the_step():
    (model, optimizer, x, target), (reference, other, x_cpu, target_cpu) = pair("mlp")
    schedulers = [torch.optim.lr_scheduler.ExponentialLR(o, 0.9) for o in (optimizer, other)]
    step = openhpu.compile_step(train_step, max_captures=4)
    for _ in range(10):
        ours = step(model, optimizer, x, target)
        torch.testing.assert_close(ours.cpu(), train_step(reference, other, x_cpu, target_cpu), rtol=1e-4, atol=1e-5)
        for scheduler in schedulers:
            scheduler.step()
    assert_same_weights(model, reference)
    assert step.statistics()["captured"] == 3  # then it is clear that each step has another lr


def test_batches_of_another_size():
    (model, optimizer, x, target), (reference, other, x_cpu, target_cpu) = pair("mlp")
    step = openhpu.compile_step(train_step)
    for n in (8, 8, 5, 8, 5, 3):
        ours = step(model, optimizer, x[:n], target[:n])
        theirs = train_step(reference, other, x_cpu[:n], target_cpu[:n])
        torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-4, atol=1e-5)
    assert step.statistics()["captured"] == 3
    assert_same_weights(model, reference)


def test_arguments_that_are_parts_of_larger_tensors():
    (model, optimizer, _, target), (reference, other, _, _) = pair("mlp")
    images = torch.linspace(-1, 1, 16 * 40).view(40, 16)
    on_hpu = images.to("hpu")
    step = openhpu.compile_step(train_step)
    for k in range(5):
        rows = slice(8 * k, 8 * k + 8)
        ours = step(model, optimizer, on_hpu[rows], target)
        theirs = train_step(reference, other, images[rows], target.cpu())
        torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-4, atol=1e-5)
    assert torch.equal(on_hpu.cpu(), images)


def test_accumulation_of_gradients():
    (model, optimizer, x, target), (reference, other, x_cpu, target_cpu) = pair("mlp")

    def accumulate(model, x, target):
        loss = loss_of(model, x, target)
        loss.backward()
        return loss.detach()

    step = openhpu.compile_step(accumulate)
    for _ in range(3):
        for k in range(4):
            ours = step(model, x * (k + 1), target)
            theirs = accumulate(reference, x_cpu * (k + 1), target_cpu)
            torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-4, atol=1e-5)
        for o in (optimizer, other):
            o.step()
            o.zero_grad()
    assert_same_weights(model, reference)


def test_gradients_can_be_dropped_between_steps():
    model, optimizer, x, target = make("mlp", torch.optim.SGD)
    step = openhpu.compile_step(train_step)
    for _ in range(4):
        step(model, optimizer, x, target)
        assert all(p.grad is not None for p in model.parameters())
        model.zero_grad()
        assert all(p.grad is None for p in model.parameters())


def test_checkpoints_see_and_set_the_state():
    (model, optimizer, x, target), (reference, other, x_cpu, target_cpu) = pair("mlp")
    step = openhpu.compile_step(train_step)
    for _ in range(4):
        step(model, optimizer, x, target), train_step(reference, other, x_cpu, target_cpu)
    saved = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    losses = [step(model, optimizer, x, target).item() for _ in range(3)]
    model.load_state_dict(saved[0])
    optimizer.load_state_dict(saved[1])
    assert [step(model, optimizer, x, target).item() for _ in range(3)] == losses
    for p in model.parameters():
        p.data = p.data * 0
    torch.testing.assert_close(step(model, optimizer, x, target).cpu(), torch.tensor(4.0).log())


def test_one_function_for_two_models():
    settings = [make("mlp", torch.optim.SGD) for _ in range(2)]
    references = [make("mlp", torch.optim.SGD, device="cpu") for _ in range(2)]
    for s in (settings, references):
        s[1][1].param_groups[0]["lr"] = 0.3
    step = openhpu.compile_step(train_step)
    for k in range(4):
        if k == 2:
            for s in (settings, references):
                s[1][1].param_groups[0]["lr"] = 0.1
        for ours, theirs in zip(settings, references, strict=True):
            torch.testing.assert_close(step(*ours).cpu(), train_step(*theirs), rtol=1e-4, atol=1e-5)
    for ours, theirs in zip(settings, references, strict=True):
        assert_same_weights(ours[0], theirs[0])
    assert step.statistics()["eager"] == 2 and step.statistics()["captured"] == 3


def test_a_variable_that_names_another_model():
    model, optimizer, x, target = make("mlp", torch.optim.SGD)

    @openhpu.compile_step
    def step(x, target):
        return train_step(model, optimizer, x, target)

    losses = [step(x, target).item() for _ in range(3)]
    model, optimizer, _, _ = make("mlp", torch.optim.SGD)
    assert [step(x, target).item() for _ in range(3)] == losses


def test_dropout_draws_as_in_eager_mode():
    def losses(wrap):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 32), nn.Dropout(0.5), nn.Linear(32, 4)).to("hpu")
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x, target = torch.ones(6, 8, device="hpu"), (torch.arange(6) % 4).to("hpu")
        step = wrap(train_step)
        return [step(model, optimizer, x, target).item() for _ in range(6)]

    assert losses(openhpu.compile_step) == losses(lambda f: f)


def test_a_read_inside_is_an_error_and_changes_nothing():
    model, optimizer, x, target = make("mlp")

    def work(x, target):
        loss = train_step(model, optimizer, x, target)
        return loss.item()

    number = line() - 2
    step = openhpu.compile_step(work)
    step(x, target)
    before = copy.deepcopy((model.state_dict(), optimizer.state_dict()["state"]))
    with pytest.raises(StepError, match=f"work can't run as one graph: .*test_compile_step.py\", line {number}"):
        step(x, target)
    torch.testing.assert_close((model.state_dict(), optimizer.state_dict()["state"]), before, rtol=0, atol=0)


def test_state_on_the_host_is_an_error():
    model, _, x, target = make("mlp")
    optimizer = torch.optim.Adam(model.parameters(), foreach=True)
    step = openhpu.compile_step(train_step)
    step(model, optimizer, x, target)
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(StepError, match=r"Adam's state 'step'.*fused=True"):
        step(model, optimizer, x, target)
    torch.testing.assert_close(model.state_dict(), before, rtol=0, atol=0)


def test_a_scheduler_inside_is_an_error():
    model, optimizer, x, target = make("mlp")
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)

    @openhpu.compile_step
    def step(x, target):
        loss = train_step(model, optimizer, x, target)
        scheduler.step()
        return loss

    step(x, target)
    with pytest.raises(StepError, match="changes an option of an optimizer"):
        step(x, target)


def test_an_exception_of_the_function_passes():
    model, optimizer, x, target = make("mlp")

    @openhpu.compile_step
    def step(x, target, fail):
        if fail:
            raise KeyError("mine")
        return train_step(model, optimizer, x, target)

    step(x, target, False)
    with pytest.raises(KeyError, match="mine"):
        step(x, target, True)
    step(x, target, False), step(x, target, False)
    assert step.statistics()["replayed"] == 1


def test_cpu_arguments_run_as_they_are():
    model, optimizer, x, target = make("mlp", device="cpu")
    reference = copy.deepcopy(model)
    other = torch.optim.AdamW(reference.parameters(), lr=0.01)
    step = openhpu.compile_step(train_step)
    for _ in range(3):
        assert torch.equal(step(model, optimizer, x, target), train_step(reference, other, x, target))


def test_memory_is_back(level):
    model, optimizer, x, target = make("mlp")
    step = openhpu.compile_step(train_step)
    for _ in range(3):
        step(model, optimizer, x, target)
    step.clear()


@pytest.mark.parametrize("wrong, message", [(3, "expected a function, got int"), (None, None)])
def test_wrong_arguments(wrong, message):
    if message:
        with pytest.raises(TypeError, match=message):
            openhpu.compile_step(wrong)
    with pytest.raises(ValueError, match="max_captures must be at least 1, got 0"):
        openhpu.compile_step(train_step, max_captures=0)


def test_a_parameter_that_is_replaced_is_seen():
    """By another one, with the old one alive; and its memory by other memory."""
    model = nn.Linear(3, 2).to("hpu")
    x = torch.arange(3.0).to("hpu")
    step = openhpu.compile_step(lambda x: model(x).sum())
    for _ in range(3):
        step(x)
    assert step.statistics()["replayed"] >= 1
    kept, model.weight = model.weight, nn.Parameter(torch.ones(2, 3, device="hpu"))
    expected = 6.0 + model.bias.sum().item()
    for _ in range(3):
        assert step(x).item() == pytest.approx(expected, rel=1e-5)
    model.weight.data = torch.full((2, 3), 2.0, device="hpu")
    for _ in range(3):
        assert step(x).item() == pytest.approx(expected + 6, rel=1e-5)
    assert kept.shape == (2, 3)
