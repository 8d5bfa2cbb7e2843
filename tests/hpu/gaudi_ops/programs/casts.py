"""Casts to and from fp8, sums in fp8, and affine quantisation."""

import torch
import torch.ao.quantization.fx._decomposed  # defines the operators

from tests.hpu.gaudi_ops.programs import BF16, E4M3, E5M2, F16, F32, LARGEST, Program, generator, ops

SHAPE = (4, 6, 5)
# A scale as it is given, `scale_shape`, and the scale as it broadcasts.
SCALES = {
    "none": (None, None, torch.ones(())),
    "number": (1.7, None, torch.tensor(1.7)),
    "tensor of no dimension": (torch.tensor(0.3), None, torch.tensor(0.3)),
    "tensor of one number": (torch.tensor([45.0]), None, torch.tensor(45.0)),
    "list of one": ([0.7], None, torch.tensor(0.7)),
    "for each column": (torch.linspace(0.1, 3.0, 5), None, torch.linspace(0.1, 3.0, 5)),
    "list with a shape": ([0.3, 1.1, 7.0, 0.9], [4, 1, 1], torch.tensor([0.3, 1.1, 7.0, 0.9]).reshape(4, 1, 1)),
    "tensor with a shape": (torch.linspace(0.2, 1.9, 6), [6, 1], torch.linspace(0.2, 1.9, 6).reshape(6, 1)),
    "of all dimensions": (
        torch.linspace(0.2, 1.9, 24).reshape(4, 6, 1),
        None,
        torch.linspace(0.2, 1.9, 24).reshape(4, 6, 1),
    ),
}


def by_steps(x, scale, dtype):
    """The product with a scale that is a number of `dtype`, rounded to it."""
    return (x.double() * scale.to(dtype).double()).to(dtype)


def to_fp8(x, scale, dtype):
    limit = LARGEST[dtype]
    return by_steps(x, scale, x.dtype).clamp(-limit, limit).to(dtype)


def is_form(form, hybrid=False):
    return not hybrid or SCALES[form][0] is None or isinstance(SCALES[form][0], torch.Tensor)


def inputs(name, *shape, dtype=F32, large=True):
    x = torch.randn(shape or SHAPE, generator=generator(name)) * 9
    if large and x.numel() > 9:
        x.view(-1)[:9] = torch.tensor([0.0, -0.0, 1e9, -1e9, 300.0, 2.0**-9, 0.015, torch.inf, -torch.inf])
        x = x if dtype is not F16 else x.clamp(-6e4, 6e4)
    return x.to(dtype)


def casts_to_fp8():
    return [
        Program(
            f"{given} to {dtype}, scale: {form}",
            lambda x, s, shape=shape, dtype=dtype: ops.cast_to_fp8_v2(x, s, False, False, dtype, shape)[0],
            (inputs(form, dtype=given), scale),
            lambda x, s, wide=wide, dtype=dtype: to_fp8(x, wide, dtype),
        )
        for given in (BF16, F16, F32)
        for dtype in (E4M3, E5M2)
        for form, (scale, shape, wide) in SCALES.items()
    ]


def both(x, first, second, recorded=False):
    return ops.cast_to_fp8_hybrid(x, first, second, False, recorded)


def hybrid_casts():
    return [
        Program(
            f"{given}, scale: {form}, {'with' if recorded else 'without'} the largest value",
            lambda x, s, recorded=recorded: both(x, s, s, recorded)[: 3 if recorded else 2],
            (inputs(form, dtype=given), scale),
            lambda x, s, wide=wide, recorded=recorded: (
                to_fp8(x, wide, E5M2),
                to_fp8(x, wide, E4M3),
                *([x.abs().max().float()] if recorded else []),
            ),
        )
        for given in (BF16, F16, F32)
        for form in ("none", "tensor of no dimension", "tensor of one number", "for each column")
        for scale, shape, wide in [SCALES[form]]
        for recorded in (False, True)
    ]


def casts_from_fp8():
    return [
        Program(
            f"{dtype} to {out}, scale: {form}",
            lambda x, s, shape=shape, out=out: ops.cast_from_fp8(x, s, out, shape),
            (inputs(form, large=False).to(dtype), scale),
            lambda x, s, wide=wide, out=out: by_steps(x, wide, out),
        )
        for dtype in (E4M3, E5M2)
        for out in (BF16, F16, F32)
        for form, (scale, shape, wide) in SCALES.items()
    ]


LAYOUTS = {
    "turned": lambda x: x.t(),
    "every second column": lambda x: x[:, ::2],
    "a column": lambda x: x[:, 1],
    "expanded": lambda x: x[:1].expand(3, 8),
    "of no dimension": lambda x: x[1, 1],
    "empty": lambda x: x[:0],
    "of five dimensions": lambda x: x.reshape(2, 1, 3, 2, 4).permute(4, 0, 3, 1, 2),
}


def layouts():
    x = inputs("layouts", 6, 8, large=False)
    programs = []
    for name, layout in LAYOUTS.items():
        for dtype in (BF16, F32):
            arguments = (x.to(dtype),)
            programs += [
                Program(
                    f"there and back, {name}, {dtype}",
                    lambda x, layout=layout: ops.cast_from_fp8(
                        ops.cast_to_fp8_v2(layout(x), 0.3, False, False, E4M3)[0], 3.3, x.dtype
                    ),
                    arguments,
                    lambda x, layout=layout: by_steps(
                        to_fp8(layout(x), torch.tensor(0.3), E4M3), torch.tensor(3.3), x.dtype
                    ),
                ),
                Program(
                    f"the largest value, {name}, {dtype}",
                    lambda x, layout=layout: ops.cast_to_fp8_v2(layout(x), None, False, True, E5M2)[1],
                    arguments,
                    lambda x, layout=layout: layout(x).abs().max().float() if layout(x).numel() else torch.zeros(()),
                ),
            ]
    return programs


def sums():
    x = torch.randn(4, 6, 5, generator=generator("sums"))
    return [
        Program(
            f"{dtype} over {dim}, {'kept' if keep else 'dropped'}, in {out}",
            lambda x, dim=dim, keep=keep, out=out: ops.sum_fp8(x, dim, keep, out),
            (x.to(dtype),),
            lambda x, dim=dim, keep=keep, out=out: x.double().sum(dim, keep).float().to(out or x.dtype),
        )
        for dtype in (E4M3, E5M2)
        for dim, keep in ((None, False), ([0], False), ([1, -1], True), ([2], True))
        for out in (None, BF16, F32)
    ]


BOUNDS = {torch.int8: (-128, 127), torch.uint8: (0, 255), E4M3: (-240, 240)}


def quantised(x, inverse, zero, dtype):
    low, high = BOUNDS[dtype]
    product = x.float() * inverse.float()
    return ((product if dtype is E4M3 else product.round()) + zero).clamp(low, high).to(dtype)


def affine_by_channel():
    programs = []
    decomposed = torch.ops.quantized_decomposed
    for given in (BF16, F16):
        for dtype in BOUNDS:
            for axis in (0, 1):
                x = inputs("affine", 12, 16, large=False).to(given)
                scales = torch.linspace(0.05, 0.9, (12, 16)[axis]).to(given)
                zeros = torch.zeros_like(scales, dtype=torch.int64) + (0 if dtype is E4M3 else 3)
                beside = (-1, 1) if axis == 0 else (1, -1)
                programs.append(
                    Program(
                        f"{given} to {dtype} along {axis}",
                        lambda x, s, z, axis=axis, dtype=dtype: decomposed.quantize_per_channel(
                            x, s, z, axis, *BOUNDS[dtype], dtype
                        ),
                        (x, scales, zeros),
                        lambda x, s, z, beside=beside, dtype=dtype: quantised(
                            x, (1.0 / s).reshape(beside), z.reshape(beside), dtype
                        ),
                    )
                )
    return programs


FAMILIES = {
    "casts to fp8": casts_to_fp8,
    "hybrid casts to fp8": hybrid_casts,
    "casts from fp8": casts_from_fp8,
    "casts to fp8 of other layouts": layouts,
    "sums in fp8": sums,
    "affine quantisation by channel": affine_by_channel,
}
