"""In lazy mode an operand on the CPU is moved to the device, and its gradient comes back (csrc/call/MovedOperands)."""

import copy

import pytest
import torch
import torch.nn.functional as F

from tests.hpu.support import capture, heard, to_cpu

M = torch.arange(12.0).reshape(3, 4) / 7 - 0.6
N = torch.arange(20.0).reshape(4, 5) / 9 - 1
MASK = torch.tensor([[True, False, True, True]] * 3)
ROWS = torch.tensor([2, 0])

# Programs of two operands alike; each is given one on the CPU and one on the device, both ways.
PAIRS = {
    **{name: getattr(torch, name) for name in ("eq", "add", "maximum", "isclose", "atan2", "cdist")},
    "sub": lambda a, b: torch.sub(a, b, alpha=2),
    "where": lambda a, b: torch.where(MASK.to(b.device), a, b),
    "lerp": lambda a, b: torch.lerp(a, b, 0.25),
    "addcmul": lambda a, b: torch.addcmul(a, b, b),
    "cat": lambda a, b: torch.cat([a, b]),
    "mse_loss": F.mse_loss,
}
# With their operands, which may differ: an indexed tensor, a layer's weights and its input, ...
PROGRAMS = {
    **{name: (function, M, M + 0.25) for name, function in PAIRS.items()},
    "mm": (torch.mm, M, N),
    "matmul": (torch.matmul, M, N),
    "bmm": (torch.bmm, M.expand(2, 3, 4), N.expand(2, 4, 5)),
    "linear": (lambda x, w: F.linear(x, w), M, N.t()),
    "conv2d": (F.conv2d, M.reshape(1, 1, 3, 4), N[:2, :2].reshape(1, 1, 2, 2)),
    "index_select": (lambda x, i: x.index_select(0, i), M, ROWS),
    "gather": (lambda x, i: x.gather(0, i), M, torch.tensor([[0, 1, 2, 0]])),
    "index": (lambda x, i: x[i], M, ROWS),
    "embedding": (lambda w, i: F.embedding(i, w), M, ROWS),
    "cross_entropy": (F.cross_entropy, M, torch.tensor([1, 0, 3])),
    "layer_norm": (lambda x, w: F.layer_norm(x, (4,), w), M, N[:, 0]),
}


@pytest.mark.parametrize("on_cpu", [0, 1])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_result_is_on_the_device(name, on_cpu, counted):
    function, *operands = PROGRAMS[name]
    mixed = [x if k == on_cpu else x.to("hpu") for k, x in enumerate(operands)]
    with counted() as work:
        result = function(*mixed)
        assert result.device.type == "hpu"
        torch.testing.assert_close(result.cpu(), function(*operands))
    if name != "index" or on_cpu == 0:  # an index on the CPU is an operand in every mode
        assert work["operands_moved"] >= 1


def test_what_looks_at_the_values():
    assert torch.allclose(M, M.to("hpu"))
    assert not torch.allclose(M + 1, M.to("hpu"))
    assert torch.equal(M.to("hpu") + 0, M.to("hpu"))


def test_a_source_of_what_is_written():
    x = torch.zeros(3, 4, device="hpu")
    x.index_copy_(0, ROWS, M[:2])
    x.add_(torch.ones(4)).masked_fill_(MASK, 9.0)
    expected = torch.zeros(3, 4).index_copy_(0, ROWS, M[:2]).add_(1).masked_fill_(MASK, 9.0)
    torch.testing.assert_close(x.cpu(), expected)


@pytest.mark.parametrize(
    ("write", "argument"),
    [
        (lambda cpu, hpu: cpu.add_(hpu), "`self` of aten::add_"),
        (lambda cpu, hpu: torch.add(hpu, 1, out=cpu), "`out` of aten::add"),
        (lambda cpu, hpu: cpu.index_add_(0, torch.tensor([0], device="hpu"), hpu[:1]), "`self` of aten::index_add_"),
        (lambda cpu, hpu: cpu.masked_fill_(MASK.to("hpu"), 2.0), ""),
        (lambda cpu, hpu: cpu.index_put_((ROWS.to("hpu"),), hpu[:2]), ""),
    ],
)
def test_a_destination_on_the_cpu_is_an_error(write, argument):
    with pytest.raises(RuntimeError, match=f"found at least two devices.*{argument}"):
        write(M.clone(), M.to("hpu"))


@pytest.mark.parametrize("name", ["mm", "linear", "conv2d", "layer_norm", "mse_loss", "lerp", "cat", "sub", "cdist"])
def test_a_gradient_comes_back(name):
    function, *operands = PROGRAMS[name]

    def gradients(*devices):
        leaves = [x.detach().clone().requires_grad_() for x in operands]
        result = function(*(x.to(device) for x, device in zip(leaves, devices, strict=True)))
        weights = torch.linspace(0.5, 1.5, result.numel(), device=result.device).reshape(result.shape)
        (result * weights).sum().backward()
        return [leaf.grad for leaf in leaves]

    expected = gradients("cpu", "cpu")
    for found in gradients("cpu", "hpu"), gradients("hpu", "cpu"):
        torch.testing.assert_close(found, expected)


def test_a_gradient_of_a_gradient():
    a = M.clone().requires_grad_()
    b = M.to("hpu")
    (first,) = torch.autograd.grad((a * a * b).sum(), [a], create_graph=True)
    first.sum().backward()
    torch.testing.assert_close(a.grad, 2 * M)


def test_a_model_trains_on_batches_of_the_host():
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
    other = copy.deepcopy(model).to("hpu")
    for net in (model, other):
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        for _ in range(3):
            optimizer.zero_grad()
            F.cross_entropy(net(M), torch.tensor([0, 2, 1])).backward()
            optimizer.step()
    torch.testing.assert_close(to_cpu(other.state_dict()), to_cpu(model.state_dict()))


def test_each_move_is_told_with_its_line():
    with heard("operand_moved") as seen:
        torch.eq(M, M.to("hpu"))
    (event,) = seen
    assert event.params == {"op": "aten::eq.Tensor", "bytes": 48}
    assert event.site[0] == __file__


def test_captures_stay_strict():
    x = M.to("hpu")
    with pytest.raises(RuntimeError, match="found at least two devices"):
        capture(lambda: x + M)


X = torch.tensor([1.0, -2.0, 3.0])
WHERE = torch.tensor([0, 2])
FIRSTS = {
    "masked_fill": lambda x, d: x.masked_fill(MASK[0, :3].to(d), 2.0),
    "masked_fill by a tensor": lambda x, d: x.masked_fill(MASK[0, :3].to(d), torch.tensor(2.0, device=d)),
    "index_put": lambda x, d: x.index_put((WHERE.to(d),), torch.tensor([5.0, 6.0]).to(d)),
    "index_put, index on the CPU": lambda x, d: x.index_put((WHERE,), torch.tensor([5.0, 6.0]).to(d)),
    "index_put, values on the CPU": lambda x, d: x.index_put((WHERE.to(d),), torch.tensor([5.0, 6.0])),
    "index_put, accumulated": lambda x, d: x.index_put((WHERE.to(d),), torch.ones(2).to(d), accumulate=True),
    "index_put by a mask": lambda x, d: x.index_put((MASK[0, :3].to(d),), torch.ones(2).to(d)),
}


@pytest.mark.parametrize("program", FIRSTS.values(), ids=FIRSTS)
def test_a_first_operand_of_which_a_composite_makes_a_copy(program, counted):
    found = []
    for device in ("cpu", "hpu"):
        x = X.clone().requires_grad_()
        with counted() as difference:
            result = program(x, device)
        assert result.device.type == device
        (result * torch.tensor([1.0, 2.0, 3.0], device=device)).sum().backward()
        found.append((result.detach().cpu(), x.grad))
    assert difference["operands_moved"] >= 1
    torch.testing.assert_close(found[1], found[0])
