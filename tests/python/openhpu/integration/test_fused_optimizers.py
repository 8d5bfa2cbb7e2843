import copy
import gc
import io
import weakref

import pytest
import torch

OPTIMIZERS = [torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD, torch.optim.Adagrad]


def train(make, device, steps=4, state=None, before=0):
    """A model after some steps; `before` as many were made and undone when the state was loaded."""
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 3).to(device)
    optimizer = make(model.parameters(), lr=0.1)
    data = torch.linspace(-1, 1, 8).reshape(2, 4).to(device)

    def step():
        optimizer.zero_grad()
        model(data).square().sum().backward()
        optimizer.step()

    weights = copy.deepcopy(model.state_dict())
    for _ in range(before):
        step()
    model.load_state_dict(weights)
    if state is not None:
        optimizer.load_state_dict(copy.deepcopy(state))
    for _ in range(steps):
        step()
    return model, optimizer


def same(left, right):
    torch.testing.assert_close(left.weight.detach().cpu(), right.weight.detach().cpu())


@pytest.fixture
def forms(monkeypatch):
    """How each step was made: the names of the fused operators that ran."""
    seen = []

    def noted(name, form):
        def call(*args, **kwargs):
            seen.append(name)
            return form(*args, **kwargs)

        return call

    for name in ("_fused_adam_", "_fused_adamw_", "_fused_sgd_", "_fused_adagrad_"):
        monkeypatch.setattr(torch, name, noted(name, getattr(torch, name)))
    return seen


@pytest.mark.parametrize("make", OPTIMIZERS)
def test_fused_by_default_and_the_same_numbers(hpu, forms, make):
    model, _ = train(make, "hpu")
    assert forms == [f"_fused_{make.__name__.lower()}_"] * 4
    reference, _ = train(make, "cpu")
    assert len(forms) == 4
    same(model, reference)


@pytest.mark.parametrize("make", OPTIMIZERS)
def test_nobody_sees_it(hpu, make):
    """Options, what is saved, and how it prints are those of the same optimizer on the CPU."""
    _, optimizer = train(make, "hpu")
    _, on_cpu = train(make, "cpu")
    assert optimizer.state_dict()["param_groups"] == on_cpu.state_dict()["param_groups"]
    assert repr(optimizer) == repr(on_cpu)
    assert optimizer.defaults == on_cpu.defaults
    assert not hasattr(optimizer, "_step_supports_amp_scaling")


@pytest.mark.parametrize(
    ("saved", "device", "before"),
    [("hpu", "cpu", 0), ("cpu", "hpu", 0), ("cpu", "hpu", 1)],
    ids=["without the device", "at first", "later"],
)
def test_what_was_saved_goes_on(hpu, forms, saved, device, before):
    file = io.BytesIO()
    torch.save(train(torch.optim.AdamW, saved, steps=2)[1].state_dict(), file)
    file.seek(0)
    state = torch.load(file, map_location="cpu")
    forms.clear()
    model, optimizer = train(torch.optim.AdamW, device, steps=2, state=state, before=before)
    assert forms[before:] == ["_fused_adamw_"] * (2 if device == "hpu" else 0)
    assert optimizer.param_groups[0]["fused"] is None
    assert all(entry["step"].device.type == device for entry in optimizer.state.values())
    same(model, train(torch.optim.AdamW, "cpu", steps=2, state=state)[0])


@pytest.mark.parametrize("option", ["foreach", "fused", "differentiable"])
def test_an_option_that_is_set_later_holds(hpu, forms, option):
    model, optimizer = train(torch.optim.SGD, "hpu", steps=1)
    assert forms == ["_fused_sgd_"]
    optimizer.param_groups[0][option] = option != "fused"
    reference, on_cpu = train(torch.optim.SGD, "cpu", steps=1)
    for one, other in ((model, optimizer), (reference, on_cpu)):
        other.step()
        assert one.weight.grad is not None
    assert forms == ["_fused_sgd_"]
    same(model, reference)


def test_a_step_that_raised_leaves_nothing_behind(hpu, forms):
    _, optimizer = train(torch.optim.SGD, "hpu", steps=1)
    forms.clear()

    def fail():
        raise KeyError("mine")

    with pytest.raises(KeyError):
        optimizer.step(fail)
    assert optimizer.state_dict()["param_groups"][0]["fused"] is None
    optimizer.param_groups[0]["foreach"] = True
    optimizer.step()
    assert forms == []
    assert optimizer.param_groups[0]["fused"] is None


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")  # in Adagrad's own step
@pytest.mark.parametrize("make", [torch.optim.SGD, torch.optim.Adagrad])
def test_gradients_that_turn_out_to_be_sparse(hpu, forms, make):
    def run(device):
        torch.manual_seed(0)
        dense = torch.ones(2, device=device, requires_grad=True)
        table = torch.nn.Embedding(5, 2, sparse=True).to(device)
        optimizer = make([dense, table.weight], lr=0.1)
        for step in range(4):
            optimizer.zero_grad()
            (dense.sum() + (table(torch.tensor([1, 3], device=device)).sum() if step > 1 else 0)).backward()
            optimizer.step()
        return table

    same(run("hpu"), run("cpu"))
    assert len(forms) == 2


def test_parameters_that_are_added_or_moved(hpu, forms):
    first, second = (torch.nn.Linear(4, 3).to("hpu") for _ in range(2))
    optimizer = torch.optim.SGD(first.parameters(), lr=0.1)
    data = torch.ones(2, 4, device="hpu")
    first(data).sum().backward()
    optimizer.step()
    optimizer.add_param_group({"params": list(second.parameters())})
    (first(data) + second(data)).sum().backward()
    optimizer.step()
    assert len(forms) == 3
    second.to("cpu")
    for parameter in second.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()
    assert len(forms) == 4


def test_an_optimizer_is_not_kept_alive(hpu):
    gone = weakref.ref(train(torch.optim.AdamW, "hpu")[1])
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("choice", [{"fused": False}, {"foreach": True}, {"foreach": False}, {"fused": True}])
def test_an_explicit_choice_stays(hpu, choice):
    model, optimizer = train(lambda params, lr: torch.optim.AdamW(params, lr=lr, **choice), "hpu")
    for name, value in choice.items():
        assert optimizer.param_groups[0][name] is value
    same(model, train(torch.optim.AdamW, "cpu")[0])


def test_a_subclass_keeps_its_own_step(hpu, forms):
    class Mine(torch.optim.AdamW):
        pass

    train(Mine, "hpu")
    assert forms == []


def test_groups_off_the_device_stay(hpu, forms):
    on, off = torch.ones(2, device="hpu", requires_grad=True), torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([{"params": [on]}, {"params": [off]}], lr=0.1)
    (on.sum().cpu() + off.sum()).backward()
    optimizer.step()
    assert forms == ["_fused_sgd_"]
    assert [group["fused"] for group in optimizer.param_groups] == [None, None]


@pytest.mark.parametrize("make", OPTIMIZERS)
def test_a_skipped_step_is_noticed(hpu, forms, make):
    """With the default form, as on the CPU; the parameters and the scale are the same, too.

    A step is noticed as accelerate 1.15 does: by whether GradScaler calls `optimizer.step`.
    """

    def run(device):
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 2).to(device)
        optimizer = make(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler(device, init_scale=4.0)
        original = optimizer.step
        steps = []
        skipped = []

        def step_noted(*args, **kwargs):
            steps.append(1)
            return original(*args, **kwargs)

        optimizer.step = step_noted
        for step in range(5):
            optimizer.zero_grad()
            factor = float("inf") if step in (2, 4) else 1.0
            scaler.scale((model(torch.ones(2, 3, device=device)) * factor).sum()).backward()
            steps.clear()
            scaler.step(optimizer)
            scaler.update()
            skipped.append(not steps)
        return model, scaler.get_scale(), skipped

    model, scale, skipped = run("hpu")
    reference, *expected = run("cpu")
    assert [scale, skipped] == expected == [1.0, [False, False, True, False, True]]
    assert len(forms) == 3
    same(model, reference)
