"""Operators and wrappers under autocast: each is one operator, whose arguments are cast by its own row alone."""

import torch

from openhpu.interface.hpex import kernels, normalization, rotary
from openhpu.interface.hpex.attention import FusedSDPA
from tests.hpu.gaudi_ops.programs import BF16, E4M3, F32, Program, generator, ops


def under_autocast(function):
    def run(*arguments):
        with torch.autocast("hpu", dtype=torch.bfloat16):
            return function(*arguments)

    return run


def with_gradient(function):
    """The result of a function and the gradient of its first argument, which is taken outside of autocast."""

    def run(x, *others):
        x = x.detach().requires_grad_()
        y = function(x, *others)
        with torch.autocast("hpu", enabled=False):
            return y.detach(), torch.autograd.grad(y.float().square().sum(), x)[0]

    return run


def as_without():
    """Programs that autocast leaves as they are: the numbers are those of the same program without it, in float32."""
    random = generator("autocast")
    x = torch.randn(4, 6, 8, generator=random)
    gamma, square = torch.rand(8, generator=random) + 0.5, torch.randn(2, 3, 8, 8, generator=random)
    angle = torch.rand(6, 8, generator=random) * 6
    cache = torch.stack((angle[:, :4].cos(), angle[:, :4].sin()), -1)[:4, None]
    table, bags = torch.randn(10, 8, generator=random), torch.tensor([0, 2, 5])
    rows = torch.tensor([1, 3, 3, 9, 0])
    logits = torch.randn(12, 2, 5, generator=random).log_softmax(-1)
    targets, lengths = torch.randint(1, 5, (2, 3), generator=random), torch.tensor([12, 10])
    four = x.unsqueeze(1)
    given = {
        "FusedRMSNorm": (lambda x, g: normalization.FusedRMSNorm.apply(x, g, 1e-6), x, gamma),
        "FusedRMSNorm, a gradient": (
            with_gradient(lambda x, g: normalization.FusedRMSNorm.apply(x, g, 1e-6)),
            x,
            gamma,
        ),
        "rms_norm": (lambda x, g: ops.rms_norm(x, g, 1e-6)[0], x, gamma),
        "rms_norm, a gradient": (with_gradient(lambda x, g: ops.rms_norm(x, g, 1e-6)[0]), x, gamma),
        "rms_norm_fast": (lambda x, g: ops.rms_norm_fast(x, g, 1e-6)[1], x, gamma),
        "instance_norm": (lambda x: ops.instance_norm(x, None, None, 1e-5)[0], x),
        "CustomSoftmax": (lambda x: kernels.CustomSoftmax.apply(x, 0), x),
        "RaggedSoftmax": (lambda x, n: kernels.RaggedSoftmax(x, -1, n), x, torch.tensor([1, 3, 8, 5])),
        "triu_masked_softmax": (lambda x: kernels.triu_masked_softmax(x, 0.3), square),
        "scaled_masked_softmax": (lambda x: ops.scaled_masked_softmax(x, torch.zeros(8, device=x.device), 0.3), square),
        "block_softmax": (lambda x: ops.block_softmax(x, None, torch.zeros(4, dtype=torch.int64, device=x.device)), x),
        "rotary_pos_embedding": (
            lambda x, c, s: ops.rotary_pos_embedding(x, s, c, None, 0, 0),
            four,
            angle.cos(),
            angle.sin(),
        ),
        "RotaryPosEmbeddingHelperV1": (rotary.RotaryPosEmbeddingHelperV1.apply, four, angle.cos(), angle.sin()),
        "RotaryPosEmbeddingHelperV3": (rotary.RotaryPosEmbeddingHelperV3.apply, four, cache),
        "RotaryPosEmbeddingHelperV3, a gradient": (with_gradient(rotary.RotaryPosEmbeddingHelperV3.apply), four, cache),
        "apply_rotary_pos_emb": (rotary.apply_rotary_pos_emb, four, angle.cos(), angle.sin()),
        "CTCLoss": (lambda p, t, n: kernels.CTCLoss.apply(p, t, n, torch.full_like(n, 3)), logits, targets, lengths),
        "embedding_bag_sum": (
            lambda t, i, o: ops.embedding_bag_sum(t, i, o, torch.full((1,), 5, device=t.device), 0),
            table,
            rows,
            bags,
        ),
        "cast_to_fp8_v2": (lambda x: ops.cast_to_fp8_v2(x, 0.3, False, False, E4M3)[0], x),
        "cast_from_fp8": (lambda x: ops.cast_from_fp8(x.to(E4M3), 0.3, F32), x),
        "fp8_gemm_v2": (lambda x: ops.fp8_gemm_v2(x.to(E4M3), False, x.to(E4M3), True, None, F32), x),
        "sum_fp8": (lambda x: ops.sum_fp8(x.to(E4M3), [0], False, F32), x),
        "exp_fast_math": (ops.exp_fast_math, x),
        "kv_reorder": (
            lambda x: ops.kv_reorder(
                x,
                torch.zeros(2, dtype=torch.int64, device=x.device),
                torch.full((2,), 6, device=x.device),
                torch.full((2,), 27, dtype=torch.uint8, device=x.device),
            ),
            square.unsqueeze(1).repeat(1, 4, 1, 1, 1),
        ),
        "fused_clip_norm": (
            lambda x: (ops.fused_clip_norm([y := x.clone()], torch.full((1,), 0.5, device=x.device), 2.0), y),
            x,
        ),
        "FusedClipNorm": (clipped, x),
        "optimizer_ema": (averaged, x),
    }
    return [
        Program(name, under_autocast(function), tuple(arguments), function, 1e-5)
        for name, (function, *arguments) in given.items()
    ]


def clipped(x):
    parameter = torch.nn.Parameter(x.detach().clone())
    parameter.grad = x.detach().clone()
    norm = normalization.FusedClipNorm([parameter], 0.5).clip_norm([parameter])
    return norm, parameter.grad


def averaged(x):
    average = torch.zeros_like(x)
    ops.optimizer_ema([x], [average], torch.full((1,), 0.9, device=x.device))
    return average


def lowered():
    """Programs whose row says that arguments are cast to autocast's dtype: so is the result."""
    random = generator("lowered")
    q = torch.randn(2, 3, 5, 8, generator=random)
    x, w = torch.randn(4, 8, generator=random), torch.randn(6, 8, generator=random)
    given = {
        "FusedSDPA": (lambda q: FusedSDPA.apply(q, q, q), q),
        "FusedSDPA with sinks": (
            lambda q: FusedSDPA.apply(q, q, q, sinks=torch.zeros(3, device=q.device)),
            q,
        ),
        "sdpa_fwd": (lambda q: ops.sdpa_fwd(q, q, q, None, 0.0, 8**-0.5, False, "None", None, "left")[0], q),
        "linear": (ops.linear, x, w),
        "matmul": (lambda x, w: ops.matmul(x, w.t()), x, w),
    }
    short = lambda value: value.to(BF16)  # noqa: E731
    return [
        Program(
            name,
            under_autocast(function),
            tuple(arguments),
            lambda *arguments, function=function: function(*map(short, arguments)),
            2e-2,
        )
        for name, (function, *arguments) in given.items()
    ]


FAMILIES = {"under autocast, as without": as_without, "under autocast, lowered": lowered}
