"""The cost of kernels, by sizes for which it can be computed by hand."""

import math

import pytest
import torch
from torch.nn import functional
from torch.utils import flop_counter

from openhpu.interface.gaudi_ops import moe
from openhpu_predict import cost, fake, load, predict, record
from openhpu_predict.cost import Parameters
from openhpu_predict.operators import Kind

IDEAL = Parameters(1.0, 1.0, 1.0, 0.0, 0.0)
GAUDI2, GAUDI3 = load("gaudi2"), load("gaudi3")


def made(*shape, dtype=torch.bfloat16, **more):
    with fake():
        return torch.empty(shape, dtype=dtype, device="hpu", **more)


def kernels(recording, device=GAUDI2, eager=False):
    found = cost.fuse(recording.nodes, recording.blocks, eager=eager)
    cost.schedule(recording.nodes, found, device, IDEAL, eager)
    return found


@pytest.mark.parametrize(
    "product, device, use",
    [
        ((1, 512, 256, 64), GAUDI2, 1.0),
        ((1, 8192, 8192, 8192), GAUDI3, 1.0),
        ((1, 256, 256, 64), GAUDI2, 1.0 / 2),  # one of two arrays
        ((1, 1, 4096, 4096), GAUDI2, 1 / 128),  # a row of a tile of 128 x 512
        ((32, 1, 128, 128), GAUDI2, 1 / 128),  # four of a batch share an array of 512 x 128
        ((1, 1, 128, 128), GAUDI2, 1 / 1024),  # one alone has an array of 128 x 256, and the other array nothing
        ((64, 4, 256, 128), GAUDI2, 1 / 16),  # grouped heads: four products of 4 rows in an array
        ((1, 257, 1024, 1), GAUDI2, 257 / 384),
        ((1, 128, 512, 7), GAUDI3, 1 / 8),
    ],
)
def test_use_of_the_mme(product, device, use):
    assert cost.mme_use(product, device) == pytest.approx(use)


def convolve(x, w):
    return functional.conv2d(x, w, padding=1)


@pytest.mark.parametrize(
    "fn, shapes",
    [
        (torch.mm, [(64, 32), (32, 48)]),
        (torch.matmul, [(5, 64, 32), (5, 32, 48)]),
        (functional.linear, [(4, 6, 32), (16, 32)]),
        (lambda x, w, b: functional.linear(x, w, b), [(8, 32), (16, 32), (16,)]),
        (torch.baddbmm, [(3, 4, 6), (3, 4, 5), (3, 5, 6)]),
        (convolve, [(2, 3, 8, 8), (5, 3, 3, 3)]),
        (functional.conv_transpose2d, [(2, 3, 8, 8), (3, 5, 3, 3)]),
    ],
)
@pytest.mark.parametrize("backward", [False, True])
def test_products_are_those_of_the_flop_counter(fn, shapes, backward):
    arguments = [made(*shape, requires_grad=backward) for shape in shapes]

    def step():
        out = fn(*arguments)
        if backward:
            out.sum().backward()

    with flop_counter.FlopCounterMode(display=False) as counter:
        recording = record(step, steps=1)
    ours = sum(2 * math.prod(product) for node in recording.nodes for product in node.products)
    assert ours == counter.get_total_flops() > 0


def test_products_of_attention_are_those_of_the_flop_counter():
    q, k = made(2, 4, 64, 32, requires_grad=True), made(2, 4, 96, 32, requires_grad=True)
    recording = record(lambda: functional.scaled_dot_product_attention(q, k, k).sum().backward(), steps=1)
    there, back = (
        sum(2 * math.prod(product) for node in recording.nodes if node.backward is side for product in node.products)
        for side in (False, True)
    )
    assert there == flop_counter.sdpa_flop_count(q.shape, k.shape, k.shape)
    assert back == flop_counter.sdpa_backward_flop_count(q.shape, q.shape, k.shape, k.shape)


def test_a_causal_attention_has_half_of_the_scores():
    q = made(1, 8, 256, 64)

    def work(causal):
        attention = functional.scaled_dot_product_attention
        recording = record(lambda: attention(q, q, q, is_causal=causal), steps=1)
        return sum(map(math.prod, recording.nodes[0].products))

    assert 2 * work(True) == work(False)


def test_times_of_single_kernels():
    a, b = made(4096, 4096), made(4096, 4096)
    (product,) = kernels(record(lambda: a @ b, steps=1))
    assert product.bound == "MME"
    assert product.seconds == pytest.approx(2 * 4096**3 / 418.7e12)
    (thin,) = kernels(record(lambda: a[:1] @ b, steps=1))
    assert thin.bound == "HBM"
    assert thin.seconds == pytest.approx(2 * (4096**2 + 2 * 4096) / GAUDI2.hbm_measured)
    (added,) = kernels(record(lambda: a + b, steps=1))
    assert added.engine == "TPC"
    assert added.bytes == 3 * 2 * 4096**2


def test_efficiencies_count_for_their_engine():
    a, b = made(4096, 4096), made(4096, 4096)
    half = Parameters(0.5, 0.5, 0.5, 1e-6, 0.0)
    for step, bound in ((lambda: a @ b, "MME"), (lambda: a.exp().exp().exp(), "TPC"), (lambda: a + b, "HBM")):
        recording = record(step, steps=1)
        (kernel,) = kernels(recording)
        ideal = kernel.seconds
        cost.time(kernel, half)
        assert kernel.bound == bound
        assert kernel.seconds == pytest.approx(2 * ideal + 1e-6)


def test_a_product_that_is_too_thin_for_the_mme_runs_on_the_tpc():
    a, b = made(32, 1, 64), made(32, 64, 8)
    (kernel,) = kernels(record(lambda: a @ b, steps=1))
    on_mme, on_tpc = kernel.products[0]
    assert on_tpc < on_mme
    cost.time(kernel, Parameters(1.0, 1e9, 1.0, 0.0, 0.0))  # the memory takes no time
    assert kernel.bound == "TPC" and kernel.seconds == pytest.approx(on_tpc)


def test_attention_has_more_steps_in_its_backward_pass():
    q = made(1, 2, 64, 32, requires_grad=True)
    recording = record(lambda: functional.scaled_dot_product_attention(q, q, q).sum().backward(), steps=1)
    found = kernels(recording)
    of = {node.backward: kernel for kernel in found for node in [recording.nodes[kernel.nodes[0]]] if node.products}
    scores, rate = 2 * 64 * 64, GAUDI2.tpc_bf16_peak / 2
    assert of[False].work["TPC"] == pytest.approx(16 * scores / rate)
    assert of[True].work["TPC"] == pytest.approx(20 * scores / rate)


def test_fp8_doubles_the_rate_of_a_gaudi_2_alone():
    a = made(4096, 4096, dtype=torch.float8_e4m3fn)
    for device, rate in ((GAUDI2, 826.5e12), (GAUDI3, 0.88 * 1289.5e12)):
        recording = record(lambda: torch.ops.hpu.fp8_gemm_v2(a, False, a, True, None, torch.bfloat16), steps=1)
        (kernel,) = kernels(recording, device)
        assert kernel.seconds == pytest.approx(2 * 4096**3 / rate)


@pytest.mark.parametrize(("tokens", "used"), [(1, 2), (2, 4), (512, 8)])
@pytest.mark.parametrize("fused", [True, False])
def test_experts_that_tokens_choose_are_read_and_computed(tokens, used, fused):
    """Two of eight; their weights are views of one tensor, or their own."""
    whole = made(8, 256, 64)
    first = list(whole.unbind()) if fused else [made(256, 64) for _ in range(8)]
    second = [made(64, 128) for _ in range(8)]
    x, table, weights = made(tokens, 64), made(tokens, 2, dtype=torch.int64), made(tokens, 2)
    lists = (first, second) if fused else ([one[:128] for one in first], [one[128:] for one in first], second)

    def step():
        return torch.ops.hpu.mixture_of_experts(x, table, weights, *lists, True, "silu", 0, 7)

    (node,) = record(step, steps=1).nodes
    rows = max(2 * tokens // used, 1)
    products = [(used, rows, 256, 64)] if fused else [(used, rows, 128, 64)] * 2
    assert node.products == [*products, (used, rows, 64, 128)]
    share = 1 - 0.75**tokens
    read = sum(node.reads.values()) - x.nbytes - table.nbytes - weights.nbytes
    expected = share * 8 * 2 * (256 * 64 + 64 * 128)
    assert read == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("fp8", [False, True])
def test_experts_under_fake_tensors_run_once_for_all(fp8, monkeypatch):
    """Their number does not make a recording longer, and their sum has the shape and type of one of them."""
    ran = []
    kept = moe.mix
    monkeypatch.setattr(moe, "mix", lambda given, count, expert: ran.append(count) or kept(given, count, expert))
    dtype = torch.float8_e4m3fn if fp8 else torch.bfloat16
    first, second = ([made(*size, dtype=dtype) for _ in range(64)] for size in ((256, 64), (64, 128)))
    x, table, weights = made(4, 64, dtype=dtype), made(4, 2, dtype=torch.int64), made(4, 2)
    one = made(1, dtype=torch.float32)
    scales = (one, [one] * 64, [one] * 64, [one] * 64) if fp8 else ()
    shapes = []

    def step(last=63):
        found = torch.ops.hpu.mixture_of_experts(x, table, weights, first, second, *scales, True, "silu", 0, last)
        shapes.append((tuple(found.shape), found.dtype))

    (node,) = record(step, steps=1).nodes
    assert (ran, shapes) == ([1], [((4, 64), torch.bfloat16)])
    assert node.products == [(8, 1, 256, 64), (8, 1, 64, 128)]
    with pytest.raises(RuntimeError, match="experts_max"):
        record(lambda: step(62), steps=1)


@pytest.mark.parametrize(("scale", "cast"), [(0.5, True), (0.25, False)])
def test_cast_from_fp8_that_is_undone_does_not_run(scale, cast):
    """A cache in fp8, whose values a product reads in fp8; with another scale both casts run."""
    cache, query = made(64, 64, dtype=torch.float8_e4m3fn), made(64, 64, dtype=torch.float8_e4m3fn)

    def step(kept=None):
        wide = torch.ops.hpu.cast_from_fp8(cache, 1 / scale, torch.bfloat16)
        narrow = torch.ops.hpu.cast_to_fp8_v2(wide.t(), scale if cast else 1.0, False, False, torch.float8_e4m3fn)[0]
        out = torch.ops.hpu.fp8_gemm_v2(query, False, narrow, False, None, torch.bfloat16)
        return out if kept is None else (out, wide + 1)

    found = kernels(record(step, steps=1))
    assert len(found) == (1 if cast else 2)
    assert found[-1].bytes == 2 * cache.nbytes + 2 * 64 * 64
    also_read = kernels(record(lambda: step(True), steps=1))
    assert also_read[0].nodes[0] == 0  # the cast runs


def test_products_in_fp8_whose_heads_share_a_key_have_more_rows():
    query, keys = (made(*size, dtype=torch.float8_e4m3fn) for size in ((8, 2, 4, 1, 64), (8, 2, 1, 128, 64)))
    for key, turned in ((keys, True), (keys.mT, False)):
        recording = record(
            lambda key=key, turned=turned: torch.ops.hpu.fp8_gemm_v2(query, False, key, turned, None, torch.bfloat16),
            steps=1,
        )
        assert recording.nodes[-1].products == [(16, 4, 128, 64)]


def test_a_weight_for_a_whole_batch_is_read_once():
    x, weight = made(16, 32, 4, 64).transpose(1, 2), made(64, 64)  # not contiguous
    ((batch, rows, columns, length),) = record(lambda: functional.linear(x, weight), steps=1).nodes[-1].products
    assert batch * rows == 16 * 32 * 4 and (columns, length) == (64, 64)
    one = made(1, 64, 64).expand(32, 64, 64)
    many = made(32, 4, 64)
    recording = record(lambda: torch.bmm(many, one), steps=1)
    assert recording.nodes[0].products == [(1, 128, 64, 64)]
    assert sum(recording.nodes[0].reads.values()) == many.nbytes + weight.nbytes


def test_a_chain_is_one_pass_over_memory():
    x = made(1024, 1024)
    (chain,) = kernels(record(lambda: functional.silu(x * 2 + 1).softmax(-1), steps=1))
    assert len(chain.nodes) == 4
    assert chain.bytes == 2 * x.nbytes
    apart = kernels(record(lambda: functional.silu(x * 2 + 1).softmax(-1), steps=1), eager=True)
    assert [one.bytes for one in apart] == [2 * x.nbytes] * 4


def test_a_value_that_lives_on_is_written():
    x = made(1024, 1024)
    kept = []

    def step():
        kept.append(x * 2)
        return kept[0] + 1

    (chain,) = kernels(record(step, steps=1))
    assert chain.bytes == 3 * x.nbytes


def test_gathers_of_short_rows_cost_more():
    rows = made(100, dtype=torch.int64)
    wide, narrow = made(1000, 128), made(1000, 64)
    (long,), (short,) = (kernels(record(lambda t=t: functional.embedding(rows, t), steps=1)) for t in (wide, narrow))
    assert long.bytes - rows.nbytes == 2 * (short.bytes - rows.nbytes)
    assert short.work["HBM"] == pytest.approx(2.4 * short.bytes / GAUDI2.hbm_measured)
    assert long.work["HBM"] == pytest.approx(long.bytes / GAUDI2.hbm_measured)


def test_engines_overlap_and_wait_for_their_inputs():
    a, x = made(4096, 4096), made(4096, 4096)
    for step, whole in ((lambda: (a @ a, x.sin()), max), (lambda: (a @ x).sin(), sum)):
        recording = record(step, steps=1)
        found = kernels(recording)
        line = cost.schedule(recording.nodes, found, GAUDI2, IDEAL)
        assert line.seconds == pytest.approx(whole(one.seconds for one in found) + GAUDI2.graph_launch)


def test_eager_mode_pays_for_each_launch():
    x = made(8)

    def step():
        y = x
        for _ in range(100):
            y = y + 1
        return y

    eager, graph = (predict(step, mode=mode, device="gaudi2") for mode in ("eager", "graph"))
    assert eager.timeline.bound == "host"
    assert eager.seconds >= 100 * GAUDI2.eager_launch
    assert graph.seconds < 2 * GAUDI2.graph_launch
    assert graph.timeline.graphs == 1


@pytest.mark.parametrize(
    "fn, kind",
    [
        (lambda x: x.exp(), Kind.POINTWISE),
        (lambda x: x.sum(-1), Kind.ROWS),
        (lambda x: x.sum(0), Kind.REDUCTION),
        (lambda x: x.t().contiguous(), Kind.COPY),
        (lambda x: x.cpu(), Kind.HOST_COPY),
        (lambda x: x.index_select(0, torch.zeros(3, dtype=torch.int64, device="hpu")), Kind.GATHER),
        (lambda x: torch.ops.hpu.rms_norm(x, x[0], 1e-5), Kind.ROWS),
        (lambda x: torch.ops._c10d_functional.all_reduce(x, "sum", "0"), Kind.COLLECTIVE),
        (lambda x: torch.linalg.qr(x.float()), Kind.UNKNOWN),
    ],
)
def test_kinds_of_operators(fn, kind):
    x = made(64, 32)
    assert record(lambda: fn(x), steps=1).nodes[-1].kind is kind
