"""Caches, experts, sums that are cut off, norms, softmaxes, products and attention."""

import torch

from openhpu.interface.hpex.attention import FusedSDPA
from openhpu.interface.hpex.kernels import CustomSoftmax, triu_masked_softmax
from openhpu.interface.hpex.normalization import FusedRMSNorm
from tests.hpu.gaudi_ops.programs import BF16, E4M3, E5M2, F16, F32, Program, generator, ops

CACHES = {
    "four dimensions": lambda r: torch.randn(3, 4, 6, 5, generator=r),
    "five dimensions": lambda r: torch.randn(3, 4, 2, 6, 5, generator=r),
    "six dimensions": lambda r: torch.randn(3, 4, 2, 2, 6, 5, generator=r),
    "heads and length exchanged": lambda r: torch.randn(3, 4, 6, 2, 5, generator=r).transpose(2, 3),
    "beams last in memory": lambda r: torch.randn(3, 2, 6, 5, 4, generator=r).permute(0, 4, 1, 2, 3),
    "a part of a longer cache": lambda r: torch.randn(3, 4, 2, 9, 5, generator=r)[:, :, :, 2:8],
    "as many heads as beams": lambda r: torch.randn(3, 4, 4, 6, 5, generator=r),
    "bfloat16": lambda r: torch.randn(3, 4, 2, 6, 5, generator=r).bfloat16(),
}


def reordered(cache, start, end, beams):
    expected = cache.clone()
    for i, (first, last) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        order = [int(beams[i]) >> shift & 3 for shift in (6, 4, 2, 0)]
        expected[i][..., first:last, :] = cache[i][order][..., first:last, :]
    return expected


def caches():
    bounds = torch.tensor([1, 0, 3]), torch.tensor([4, 6, 3]), torch.tensor([0b11000001, 27, 228], dtype=torch.uint8)
    return [
        Program(
            f"{name}{', in place' if own else ''}",
            (lambda x, *more: ops.kv_reorder_(x.clone(), *more)) if own else ops.kv_reorder,
            (make(generator(name)), *bounds),
            reordered,
        )
        for name, make in CACHES.items()
        for own in (False, True)
    ]


ACTIVATIONS = {"silu": torch.nn.functional.silu, "gelu": torch.nn.functional.gelu, "relu": torch.relu}


def measured(x, routing, weights, experts, activation):
    """The mixture, and of each expert the largest value that enters its last weight, over all tokens."""
    total, largest = torch.zeros(x.shape, dtype=torch.float64), []
    for i, (w1, w2, w3) in enumerate(zip(*experts, strict=True)):
        inner = ACTIVATIONS[activation](x.double() @ w1.double()) * (x.double() @ w2.double())
        largest.append(inner.max())
        total += (inner @ w3.double()) * torch.where(routing == i, weights.double(), 0.0).sum(-1, keepdim=True)
    return total, torch.stack(largest)


def experts():
    programs = []
    for activation in ACTIVATIONS:
        for dtype, near in ((F32, 1e-4), (BF16, 6e-2)):
            for fused in (False, True):
                for permuted in (False, True):
                    random = generator(activation)
                    x = torch.randn(6, 8, generator=random).to(dtype)
                    routing = torch.tensor([[0, 2]] * 4 + [[2, 0]] * 2)  # the second and the fourth get nothing
                    weights = torch.rand(6, 2, generator=random).to(dtype)
                    each = [
                        [torch.randn(a, b, generator=random).div(2).to(dtype) for _ in range(4)]
                        for a, b in ((8, 5), (8, 5), (5, 8))
                    ]
                    given = [[w.t().contiguous() if permuted else w for w in ws] for ws in each]
                    if fused:
                        axis = 0 if permuted else 1
                        given = [[torch.cat(pair, axis) for pair in zip(*given[:2], strict=True)], given[2]]
                    name = "fp8_measurement_fused_weights" if fused else "fp8_measurement"
                    programs.append(
                        Program(
                            f"{name}, {activation}, {dtype}{', permuted' if permuted else ''}",
                            lambda x, r, w, *lists, name=name, permuted=permuted, activation=activation: getattr(
                                ops.mixture_of_experts, name
                            )(x, r, w, *lists, permuted, activation, 0, 3, True),
                            (x, routing, weights, *given),
                            lambda x, r, w, *_, each=each, activation=activation: measured(x, r, w, each, activation),
                            near,
                        )
                    )
    return programs


def cut_off(x, other, alpha):
    product = (other.double() * alpha).to(x.dtype) if isinstance(other, torch.Tensor) else other * alpha
    return torch.relu((x.double() + product).to(x.dtype))


def sums_that_are_cut_off():
    aten = torch.ops.aten
    forms = {
        "a new tensor": lambda x, y, alpha: aten._add_relu(x, y, alpha=alpha),
        "in place": lambda x, y, alpha: aten._add_relu_(x.clone(), y, alpha=alpha),
        "out": lambda x, y, alpha: aten._add_relu.out(x, y, alpha=alpha, out=torch.empty_like(x)),
    }
    programs = []
    for dtype in (BF16, F16, torch.int32):
        random = generator("relu")
        x, y = ((torch.randn(8, 16, generator=random) * 9).to(dtype) for _ in range(2))
        for alpha in (1, 2) if dtype is torch.int32 else (1, 0.3, 1.7):
            for form, run in forms.items():
                programs.append(
                    Program(
                        f"{dtype}, times {alpha}, {form}",
                        lambda x, y, run=run, alpha=alpha: run(x, y, alpha),
                        (x, y),
                        lambda x, y, alpha=alpha: cut_off(x, y, alpha),
                    )
                )
    return programs


def normalised(x, gamma, eps):
    wide = x.double()
    return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps) * gamma.double()).to(x.dtype)


VIEWS = {
    "contiguous": lambda x: x,
    "turned": lambda x: x.transpose(0, 1),
    "a part": lambda x: x[1:, :, :],
    "every second row": lambda x: x[::2],
    "of five dimensions": lambda x: x.unflatten(0, (2, 2)).unsqueeze(1),
    "empty": lambda x: x[:0],
}


def norms_and_softmaxes():
    x = torch.randn(4, 6, 8, generator=generator("norms"))
    gamma, mask = torch.rand(8, generator=generator("gamma")) + 0.5, torch.zeros(8)
    triangle = torch.ones(8, 8).tril().bool()
    scores = torch.randn(2, 3, 8, 8, generator=generator("scores"))
    programs = []
    for name, view in VIEWS.items():
        for dtype, near in ((F32, 1e-5), (BF16, 1e-2)):
            programs += [
                Program(
                    f"rms_norm, {name}, {dtype}",
                    lambda x, g, view=view: ops.rms_norm(view(x), g, 1e-6)[0],
                    (x.to(dtype), gamma),
                    lambda x, g, view=view: normalised(view(x), g, 1e-6),
                    near,
                ),
                Program(
                    f"FusedRMSNorm, {name}, {dtype}",
                    lambda x, g, view=view: FusedRMSNorm.apply(view(x), g, 1e-6),
                    (x.to(dtype), gamma.to(dtype)),
                    lambda x, g, view=view: normalised(view(x), g, 1e-6),
                    near,
                ),
                Program(
                    f"scaled_masked_softmax, {name}, {dtype}",
                    lambda x, m, view=view: ops.scaled_masked_softmax(view(x), m, 0.5),
                    (x.to(dtype), mask),
                    lambda x, m, view=view: torch.softmax(view(x).double() * 0.5 + m, -1).to(x.dtype),
                    near,
                ),
                Program(
                    f"CustomSoftmax, {name}, {dtype}",
                    lambda x, view=view: CustomSoftmax.apply(view(x), 0),
                    (x.to(dtype),),
                    lambda x, view=view: torch.softmax(view(x).double(), -1).to(x.dtype),
                    near,
                ),
            ]
    for dtype, near in ((F32, 1e-5), (BF16, 1e-2)):
        programs.append(
            Program(
                f"triu_masked_softmax, {dtype}",
                lambda x: triu_masked_softmax(x, 0.5),
                (scores.to(dtype),),
                lambda x: torch.softmax((x.double() * 0.5).masked_fill(~triangle, -torch.inf), -1).to(x.dtype),
                near,
            )
        )
    return programs


def fp8_products():
    random = generator("products")
    a, b = torch.randn(2, 4, 6, generator=random), torch.randn(6, 5, generator=random)
    bias, d = torch.randn(5, generator=random), torch.randn(2, 4, 5, generator=random)
    programs = []
    for dtypes in ((E4M3, E4M3), (E5M2, E4M3)):
        left, right = a.to(dtypes[0]), b.to(dtypes[1])
        for out, near in ((F32, 1e-5), (BF16, 2e-2)):
            for name, call in {
                "plain": lambda a, b, bias, d, out: ops.fp8_gemm_v2(a, False, b, False, None, out),
                "with tensors": lambda a, b, bias, d, out: ops.fp8_gemm_v2(
                    a, False, b, False, None, out, torch.full((1,), 0.5, device=a.device), b.new_ones(1).float(), bias
                ),
                "with numbers": lambda a, b, bias, d, out: ops.fp8_gemm_v2(
                    a, False, b, False, None, out, 0.5, 1.0, bias.to(out)
                ),
                "with lists": lambda a, b, bias, d, out: ops.fp8_gemm_v2(
                    a, False, b, False, None, out, [0.5], [1.0], bias
                ),
                "added": lambda a, b, bias, d, out: ops.fp8_gemm_v2(
                    a, False, b, False, d.to(out), out, None, None, None, True
                ),
                "turned": lambda a, b, bias, d, out: ops.fp8_gemm_v2(
                    a.transpose(-1, -2).contiguous(), True, b.t(), True, None, out
                ),
            }.items():
                programs.append(
                    Program(
                        f"{name}, {dtypes}, {out}",
                        lambda a, b, bias, d, call=call, out=out: call(a, b, bias, d, out),
                        (left, right, bias, d),
                        lambda a, b, bias, d, name=name: (
                            (a.double() @ b.double()) * (0.5 if "with" in name else 1.0)
                            + (bias.double() if "with" in name else 0.0)
                            + (d.double() if name == "added" else 0.0)
                        ),
                        near,
                    )
                )
    return programs


def attended(q, k, v, mask=None, causal=False):
    groups = q.shape[1] // k.shape[1]
    q, k, v = q.double(), k.double().repeat_interleave(groups, 1), v.double().repeat_interleave(groups, 1)
    scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
    if causal:
        scores = scores.masked_fill(~torch.ones(scores.shape[-2:]).tril().bool(), -torch.inf)
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype is torch.bool else scores + mask.double()
    return torch.softmax(scores, -1) @ v


def attention():
    programs = []
    seen = torch.ones(5, 6).tril(1).bool()
    for dtype, near in ((F32, 1e-4), (BF16, 2e-2)):
        for heads in (4, 2):
            random = generator("attention")
            q = torch.randn(2, 4, 5, 8, generator=random).to(dtype)
            k, v = (torch.randn(2, heads, 6, 8, generator=random).to(dtype) for _ in range(2))
            given = {"none": None, "bool": seen, "added": torch.where(seen, 0.5, -1e4).to(dtype)}
            for name, mask in given.items():
                for mode in ("None", "fast"):
                    programs.append(
                        Program(
                            f"{heads} heads, mask: {name}, {mode}, {dtype}",
                            lambda q, k, v, m, mode=mode: FusedSDPA.apply(q, k, v, m, 0.0, False, None, mode),
                            (q, k, v, mask),
                            attended,
                            near,
                        )
                    )
            programs.append(
                Program(
                    f"{heads} heads, causal, of views, {dtype}",
                    lambda q, k, v: FusedSDPA.apply(q, k[:, :, :5], v[:, :, :5], None, 0.0, True),
                    (q.transpose(1, 2).contiguous().transpose(1, 2), k, v),
                    lambda q, k, v: attended(q, k[:, :, :5], v[:, :, :5], None, True),
                    near,
                )
            )
    return programs


def complex_numbers():
    random = generator("complex")
    x, y = (torch.randn(4, 6, dtype=torch.complex64, generator=random) for _ in range(2))
    functions = {
        "sum": lambda x, y: x + y,
        "difference": lambda x, y: x - 2 * y,
        "product": lambda x, y: x * y,
        "product with a number": lambda x, y: x * (1 + 2j),
        "quotient": lambda x, y: x / y,
        "absolute value": lambda x, y: x.abs(),
        "angle": lambda x, y: x.angle(),
        "conjugate": lambda x, y: x.conj() * y,
        "real part": lambda x, y: x.real + y.imag,
        "as real numbers": lambda x, y: torch.view_as_real(x) * 2,
        "of polar coordinates": lambda x, y: torch.polar(x.abs(), y.angle()),
        "product of matrices": lambda x, y: x @ y.t(),
        "mean": lambda x, y: x.mean(0),
        "in place": lambda x, y: x.clone().mul_(y).add_(1j),
        "of its parts": lambda x, y: torch.complex(x.real, y.imag),
        "exponential": lambda x, y: x.exp(),
    }
    return [
        Program(
            name, function, (x, y), lambda x, y, f=function: f(x.to(torch.complex128), y.to(torch.complex128)), 1e-5
        )
        for name, function in functions.items()
    ]


FAMILIES = {
    "caches": caches,
    "experts, measured": experts,
    "sums that are cut off": sums_that_are_cut_off,
    "norms and softmaxes": norms_and_softmaxes,
    "products in fp8": fp8_products,
    "attention": attention,
    "complex numbers": complex_numbers,
}
