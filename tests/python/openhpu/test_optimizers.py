import copy

import pytest
import torch

OPTIMIZERS = [torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD, torch.optim.Adagrad]


def train(make, device, steps=4, state=None):
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 3).to(device)
    optimizer = make(model.parameters(), lr=0.1)
    if state is not None:
        optimizer.load_state_dict(copy.deepcopy(state))
    data = torch.linspace(-1, 1, 8).reshape(2, 4).to(device)
    for _ in range(steps):
        optimizer.zero_grad()
        model(data).square().sum().backward()
        optimizer.step()
    return model, optimizer


def same(left, right):
    torch.testing.assert_close(left.weight.detach().cpu(), right.weight.detach().cpu())


@pytest.mark.parametrize("make", OPTIMIZERS)
def test_fused_by_default_and_the_same_numbers(hpu, make):
    model, optimizer = train(make, "hpu")
    assert optimizer.param_groups[0]["fused"] is True
    reference, on_cpu = train(make, "cpu")
    assert on_cpu.param_groups[0]["fused"] is None
    same(model, reference)


@pytest.mark.parametrize("choice", [{"fused": False}, {"foreach": True}, {"foreach": False}, {"fused": True}])
def test_an_explicit_choice_stays(hpu, choice):
    model, optimizer = train(lambda params, lr: torch.optim.AdamW(params, lr=lr, **choice), "hpu")
    for name, value in choice.items():
        assert optimizer.param_groups[0][name] is value
    same(model, train(torch.optim.AdamW, "cpu")[0])


def test_a_loaded_state_goes_on(hpu):
    _, halfway = train(torch.optim.AdamW, "cpu", steps=2)
    state = halfway.state_dict()
    expected, _ = train(torch.optim.AdamW, "cpu", steps=2, state=state)
    model, optimizer = train(torch.optim.AdamW, "hpu", steps=2, state=state)
    assert optimizer.param_groups[0]["fused"] is True
    assert all(entry["step"].is_hpu for entry in optimizer.state.values())
    same(model, expected)


def test_a_subclass_keeps_its_own_step(hpu):
    class Mine(torch.optim.AdamW):
        pass

    assert train(Mine, "hpu")[1].param_groups[0]["fused"] is None


def test_groups_off_the_device_stay(hpu):
    on, off = torch.ones(2, device="hpu", requires_grad=True), torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([{"params": [on]}, {"params": [off]}], lr=0.1)
    (on.sum().cpu() + off.sum()).backward()
    optimizer.step()
    assert [group["fused"] for group in optimizer.param_groups] == [True, None]
    assert not getattr(optimizer, "_step_supports_amp_scaling", False)


def test_with_a_grad_scaler(hpu):
    def run(device):
        torch.manual_seed(0)
        model = torch.nn.Linear(3, 2).to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler(device, init_scale=4.0)
        for step in range(4):
            optimizer.zero_grad()
            factor = float("inf") if step == 2 else 1.0
            scaler.scale((model(torch.ones(2, 3, device=device)) * factor).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
        return model, optimizer, scaler

    model, optimizer, scaler = run("hpu")
    reference, _, expected = run("cpu")
    assert optimizer._step_supports_amp_scaling
    assert scaler.get_scale() == expected.get_scale() == 2.0
    same(model, reference)
