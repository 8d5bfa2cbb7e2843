"""What compiled functions do with odd or wrong input and code: what eager mode does, or an error that says what.

Elsewhere: operators that no recipe can hold (test_compile_partition), views, layouts and shared memory
(test_compile_memory), a compiler that fails (test_compiled_failures), graph breaks (test_compile_graphs).
"""

import pytest
import torch
from torch import nn

from tests.hpu.support import compiled, line

pytestmark = pytest.mark.usefixtures("compiled_graphs")


def gradients(function, *values):
    """What the function returns, and the gradients of its sum, for leaves of the same values on the same devices."""
    leaves = [v.detach().clone().requires_grad_() for v in values]
    y = function(*leaves)
    return [y.detach(), *torch.autograd.grad(y.sum(), leaves)]


def test_tensors_of_two_devices():
    def work(a, b):
        y = a * 2
        return y + b

    number = line() - 2
    f = compiled(work)
    x = torch.ones(3, device="hpu")
    for _ in range(2):
        with pytest.raises(Exception, match="at least two devices, hpu:0 and cpu") as error:
            f(x, torch.ones(3))
        assert f'test_compile_bad_input.py", line {number}' in str(error.value) and "add" in str(error.value)
    assert f(x, torch.ones(3, device="hpu")).tolist() == [3.0] * 3  # and goes on


def test_a_device_that_is_not_there():
    f = compiled(lambda x: (x + 1).to("hpu:50"))
    with pytest.raises(Exception, match=r"HPU device index 50 is out of range.*OPENHPU_DEVICE_COUNT"):
        f(torch.ones(3, device="hpu"))


def test_nothing_in_a_batch():
    """Zero rows, forward and backward, before and after batches that have some."""
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2)).to("hpu")
    f = compiled(model)
    for n in (0, 3, 0, 5):
        results = []
        for function in (model, f):
            model.zero_grad()
            y = function(torch.full((n, 4), float(n), device="hpu"))
            y.sum().backward()
            results.append([y.detach(), *(p.grad for p in model.parameters())])
        torch.testing.assert_close(results[1], results[0])


def test_complex_and_sparse_arguments():
    absolute = compiled(lambda z: (z * 2).abs())
    product = compiled(lambda s, d: torch.sparse.mm(s, d) + 1)
    z = torch.tensor([3 + 4j, 1j]).to("hpu")
    s = torch.eye(3).to_sparse().to("hpu")
    for _ in range(3):
        assert absolute(z).tolist() == [10.0, 2.0]
        assert product(s, torch.ones(3, 2, device="hpu")).tolist() == [[2.0, 2.0]] * 3


def test_gradients_of_conditions():
    def work(x):
        return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x.sin(), (x,))

    f = compiled(work, fullgraph=True)
    for value in (1.0, -2.0, 3.0, -4.0):
        x = torch.full((3,), value, device="hpu")
        torch.testing.assert_close(gradients(f, x), gradients(work, x))


def test_loops():
    def work(x):
        return torch._higher_order_ops.while_loop(
            lambda i, y: i < 3, lambda i, y: (i + 1, y * 2), (torch.zeros((), dtype=torch.int64, device="hpu"), x)
        )

    f = compiled(work, fullgraph=True)
    for k in range(3):
        count, y = f(torch.full((2,), float(k), device="hpu"))
        assert count.item() == 3 and y.tolist() == [8.0 * k] * 2


def test_gradients_of_flex_attention():
    from torch.nn.attention.flex_attention import flex_attention

    def causal(score, b, h, i, j):
        return torch.where(i >= j, score, -float("inf"))

    inputs = [t.to("hpu") for t in torch.randn(3, 1, 2, 16, 8, device="cpu").unbind(0)]
    f = compiled(lambda q, k, v: flex_attention(q, k, v, score_mod=causal), fullgraph=True)
    expected = gradients(lambda q, k, v: nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True), *inputs)
    for _ in range(2):
        torch.testing.assert_close(gradients(f, *inputs), expected, rtol=1e-3, atol=1e-4)
