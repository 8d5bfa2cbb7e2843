"""What compiled functions do with odd or wrong input and code: what eager mode does, or an error that says what.

Elsewhere: operators that no recipe can hold (test_compile_partition), views, layouts and shared memory
(test_compile_memory), a compiler that fails (test_compiled_failures), graph breaks (test_compile_graphs).
"""

import pytest
import torch
from torch import nn

from tests.hpu.support import line, to_cpu

pytestmark = pytest.mark.usefixtures("compiled_graphs")


def compiled(function, **options):
    return torch.compile(function, backend="hpu_backend", **options)


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


@pytest.mark.filterwarnings("ignore")  # Dynamo's own
def test_shapes_that_do_not_fit():
    def work(a, b):
        return (a + 1) @ b

    number = line() - 2
    f = compiled(work, dynamic=False)
    good, bad = torch.ones(3, 2, device="hpu"), torch.ones(2, 2, device="hpu")
    x = torch.ones(2, 3, device="hpu")
    for _ in range(2):
        assert f(x, good).tolist() == [[6.0, 6.0], [6.0, 6.0]]
        with pytest.raises(Exception, match=r"got \[2, 3\] X \[2, 2\]") as error:
            f(x, bad)
        assert f"line {number}" in str(error.value) and "matmul" in str(error.value)


def test_an_exception_of_the_function():
    def work(x):
        if x.shape[0] == 2:
            raise ValueError("two rows")
        return x + 1

    f = compiled(work)
    for _ in range(2):
        assert f(torch.ones(3, device="hpu")).tolist() == [2.0] * 3
        with pytest.raises(ValueError, match="two rows"):
            f(torch.ones(2, device="hpu"))


def test_a_device_that_is_not_there():
    f = compiled(lambda x: (x + 1).to("hpu:50"))
    with pytest.raises(Exception, match=r"HPU device index 50 is out of range.*OPENHPU_DEVICE_COUNT"):
        f(torch.ones(3, device="hpu"))


def test_nothing_in_a_batch():
    """Zero rows, forward and backward, before and after batches that have some."""
    torch.manual_seed(0)
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


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # Dynamo looks at it
def test_gradients_through_views_with_steps():
    def work(v):
        return (v.sin() * 2).sum(0)

    f = compiled(work)
    for _ in range(3):
        base = torch.randn(4, 6, device="cpu").to("hpu")
        ours, theirs = (gradients(lambda b, g=g: g(b.t()[1:5:2]), base) for g in (f, work))
        torch.testing.assert_close(ours, theirs)


def test_complex_and_sparse_arguments():
    absolute = compiled(lambda z: (z * 2).abs())
    product = compiled(lambda s, d: torch.sparse.mm(s, d) + 1)
    z = torch.tensor([3 + 4j, 1j]).to("hpu")
    s = torch.eye(3).to_sparse().to("hpu")
    for _ in range(3):
        assert absolute(z).tolist() == [10.0, 2.0]
        assert product(s, torch.ones(3, 2, device="hpu")).tolist() == [[2.0, 2.0]] * 3


def test_gradients_of_gradients_are_refused():
    f = compiled(lambda x: (x**3).sum())
    x = torch.tensor([2.0], device="hpu", requires_grad=True)
    (first,) = torch.autograd.grad(f(x), x, create_graph=True)
    assert first.item() == 12
    with pytest.raises(RuntimeError, match="does not currently support double backward"):
        torch.autograd.grad(first.sum(), x)


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

    torch.manual_seed(0)
    inputs = [t.to("hpu") for t in torch.randn(3, 1, 2, 16, 8, device="cpu").unbind(0)]
    f = compiled(lambda q, k, v: flex_attention(q, k, v, score_mod=causal), fullgraph=True)
    expected = gradients(lambda q, k, v: nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True), *inputs)
    for _ in range(2):
        torch.testing.assert_close(gradients(f, *inputs), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Dynamo's own
def test_functions_with_a_backward_of_their_own():
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, grad):
            return 5 * grad * ctx.saved_tensors[0]  # not the derivative, so that it is seen to be used

    f = compiled(lambda x: Cube.apply(x) + 1, fullgraph=True)
    for k in (1.0, 2.0, 3.0):
        y, grad = to_cpu(gradients(f, torch.full((2,), k, device="hpu")))
        assert y.tolist() == [k**3 + 1] * 2 and grad.tolist() == [5 * k] * 2


def test_transforms():
    batched = compiled(torch.vmap(lambda a: (a * 2).sum()))
    slope = compiled(torch.func.grad(lambda a: (a**2).sum()))
    for k in (1.0, 2.0, 3.0):
        x = torch.full((3, 2), k, device="hpu")
        assert batched(x).tolist() == [4 * k] * 3
        assert slope(x[0]).tolist() == [2 * k] * 2


def test_modules_with_hooks_and_parametrizations():
    torch.manual_seed(0)
    model = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2)).to("hpu")
    seen = []
    model.register_forward_hook(lambda module, inputs, output: seen.append(output.shape))
    f = compiled(model)
    for k in range(3):
        x = torch.full((1, 3), float(k), device="hpu")
        torch.testing.assert_close(f(x), model(x))
    assert seen == [(1, 2)] * 6
