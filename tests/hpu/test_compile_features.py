"""torch.compile together with what else PyTorch has: autocast, checkpoints, custom operators, conditions, threads."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.functional import scaled_dot_product_attention
from torch.optim import SGD, AdamW
from torch.utils.checkpoint import checkpoint

from tests.hpu.support import capture, compiled, compiled_agrees, in_threads, make, to_cpu, train_step

pytestmark = pytest.mark.usefixtures("compiled_graphs")


def test_autocast():
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).to("hpu")

    def work(x):
        with torch.autocast("hpu", torch.bfloat16):
            return model(x)

    def rows(k):
        return (torch.randn(5, 8).to("hpu"),)

    compiled_agrees(work, rows, model=model, rtol=2e-2, atol=2e-2, fullgraph=True)
    f = compiled(model)
    for _ in range(2):
        with torch.autocast("hpu", torch.bfloat16):
            assert f(*rows(0)).dtype is torch.bfloat16
        assert f(*rows(0)).dtype is torch.float32


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_checkpoints(dropout):
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Dropout(dropout), nn.Linear(16, 4)).to("hpu")
    compiled_agrees(
        lambda x: checkpoint(model, x, use_reentrant=False),
        lambda k: (torch.randn(5, 8).to("hpu").requires_grad_(),),
        model=model,
    )


def test_custom_operators():
    @torch.library.custom_op("openhpu_compile_tests::scaled", mutates_args=())
    def scaled(x: torch.Tensor, by: float) -> torch.Tensor:
        return x * by

    scaled.register_fake(lambda x, by: torch.empty_like(x))
    scaled.register_autograd(
        lambda ctx, grad: (grad * ctx.by, None), setup_context=lambda ctx, inputs, output: setattr(ctx, "by", inputs[1])
    )

    @torch.library.custom_op("openhpu_compile_tests::add_into", mutates_args={"total"})
    def add_into(total: torch.Tensor, x: torch.Tensor) -> None:
        total.add_(x)

    def work(x, total):
        y = scaled(x + 1, 3.0)
        add_into(total, y.detach())
        return y * total

    compiled_agrees(
        work,
        lambda k: (torch.full((4,), float(k), device="hpu", requires_grad=True), torch.ones(4, device="hpu")),
        fullgraph=True,
    )


def test_an_exported_program_compiles(counted):
    model, _, x, _ = make("mlp")
    model.eval()
    program = torch.export.export(model, (x,))
    with torch.no_grad():
        torch.testing.assert_close(program.module()(x), model(x))
        f = compiled_agrees(program.module(), lambda k: (x,), like=model)
        with counted(graph_replays=1):
            f(x)


def test_a_graph_around_a_compiled_model(counted):
    model, _, x, _ = make("mlp")
    f = compiled(model.eval())
    with torch.no_grad():
        f(x)
        f(x)
        g, y = capture(lambda: f(x))
        x.mul_(2)
        with counted(graph_replays=1):
            g.replay()
        torch.testing.assert_close(y, model(x))
        torch.testing.assert_close(f(x), y)


@pytest.mark.filterwarnings("ignore")  # Inductor's and Dynamo's own
@pytest.mark.parametrize(
    "optimizer, settings", [(AdamW, {}), (AdamW, {"foreach": True, "capturable": True}), (SGD, {"momentum": 0.9})]
)
def test_compiled_optimizers(optimizer, settings):
    parts = make("mlp", optimizer, **settings)
    reference = make("mlp", optimizer, "cpu", **{name: v for name, v in settings.items() if name != "capturable"})
    parts[1].step = compiled(parts[1].step)
    for _ in range(3):
        train_step(*parts)
        train_step(*reference)
    ours, theirs = (to_cpu(list(model.parameters())) for model in (parts[0], reference[0]))
    torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)


def test_threads():
    """Captures exclude each other; a call that finds one under way runs eagerly."""
    functions = [compiled(lambda x, k=k: (x * k).sum() + k, dynamic=True) for k in range(1, 5)]

    def work(k, sizes):
        for n in sizes:
            for _ in range(3):
                x = torch.ones(n, device="hpu", requires_grad=True)
                y = functions[k - 1](x)
                y.backward()
                assert y.item() == n * k + k
                assert x.grad.tolist() == [float(k)] * n

    for k in range(1, 5):
        work(k, (7, 8))  # what follows is not for Dynamo, which compiles on one thread at a time
    in_threads(*(partial(work, k, range(3, 20)) for k in range(1, 5)))


def test_on_another_device(script):
    code = """
f = torch.compile(lambda x: x * 2 + torch.ones(3, device=x.device), backend="hpu_backend")
for index in (1, 0, 1, 1, 0):
    x = torch.full((3,), float(index), device=f"hpu:{index}")
    y = f(x)
    assert y.device == x.device
    assert y.tolist() == [2.0 * index + 1] * 3
assert torch.hpu.current_device() == 0
g = torch.compile(lambda a, b: (a + 1).to(b.device) * (b + 2), backend="hpu_backend")
for k in range(3):
    assert g(torch.full((2,), float(k), device="hpu:1"), torch.ones(2, device="hpu:0")).tolist() == [3.0 * (k + 1)] * 2
"""
    script(code, warnings="default", OPENHPU_DEVICE_COUNT="2", OPENHPU_COMPILE="off")


def test_scripts_that_do_not_compile_import_no_dynamo(script):
    code = """
import sys, torch
import habana_frameworks.torch
torch.ones(3, device="hpu").sum().item()
assert "torch._dynamo" not in sys.modules
import torch._dynamo
assert "hpu_backend" in torch._dynamo.list_backends()
interface = torch._dynamo.device_interface.get_interface_for_device("hpu")
assert interface.is_available()
assert interface.current_device() == 0
assert interface.is_bf16_supported()
"""
    script(code, fresh=True, bare=True)


def test_compiled_autograd(script):
    code = """
from habana_frameworks.torch.dynamo.compile_backend.experimental import enable_compiled_autograd
from habana_frameworks.torch.dynamo.device_interface import HpuInterface
from habana_frameworks.torch.utils.dynamo_utils import FxGraphAnalyzer
assert HpuInterface.device_count() == torch.hpu.device_count()
enable_compiled_autograd()
model = torch.nn.Linear(3, 2).to("hpu")
x = torch.ones(4, 3, device="hpu")
@torch.compile(backend="hpu_backend")
def step(x):
    model(x).sum().backward()
for k in range(3):
    model.zero_grad()
    with FxGraphAnalyzer() as analyzer:
        step(x * k)
    assert model.weight.grad.tolist() == [[4.0 * k] * 3] * 2
"""
    script(code, warnings="ignore", OPENHPU_COMPILE="off")


def test_functions_of_the_device_inside():
    @compiled
    def breaks(x):
        y = x + torch.hpu.current_device()
        torch.hpu.synchronize()
        assert torch.hpu.current_stream().query()
        return y * 2

    for _ in range(2):
        assert breaks(torch.ones(2, device="hpu")).tolist() == [2.0, 2.0]


def test_nothing_in_a_batch():
    """Zero rows, forward and backward, before and after batches that have some."""
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2)).to("hpu")
    compiled_agrees(model, lambda k: (torch.full(((0, 3, 0, 5)[k], 4), float(k), device="hpu"),), calls=4, model=model)


def test_complex_and_sparse_arguments():
    compiled_agrees(lambda z: (z * 2).abs(), lambda k: (torch.tensor([3 + 4j, 1j * k]).to("hpu"),))
    identity = torch.eye(3).to_sparse().to("hpu")
    compiled_agrees(lambda s, d: torch.sparse.mm(s, d) + 1, lambda k: (identity, torch.ones(3, 2, device="hpu") * k))


def test_gradients_of_conditions():
    def work(x):
        return torch.cond(x.sum() > 0, lambda x: x * 2, lambda x: x.sin(), (x,))

    values = (1.0, -2.0, 3.0, -4.0)
    compiled_agrees(
        work, lambda k: (torch.full((3,), values[k], device="hpu", requires_grad=True),), calls=4, fullgraph=True
    )


def test_loops():
    def work(x):
        return torch._higher_order_ops.while_loop(
            lambda i, y: i < 3, lambda i, y: (i + 1, y * 2), (torch.zeros((), dtype=torch.int64, device="hpu"), x)
        )

    f = compiled(work, fullgraph=True)
    for k in range(3):
        count, y = f(torch.full((2,), float(k), device="hpu"))
        assert count.item() == 3
        assert y.tolist() == [8.0 * k] * 2


def test_gradients_of_flex_attention():
    def causal(score, b, h, i, j):
        return torch.where(i >= j, score, -float("inf"))

    compiled_agrees(
        lambda *inputs: flex_attention(*inputs, score_mod=causal),
        lambda k: [torch.randn(1, 2, 16, 8).to("hpu").requires_grad_() for _ in range(3)],
        like=lambda *inputs: scaled_dot_product_attention(*inputs, is_causal=True),
        calls=2,
        rtol=1e-3,
        atol=1e-4,
        fullgraph=True,
    )
