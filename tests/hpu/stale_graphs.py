"""Functions of which a captured graph goes stale, however small the difference is beside other values of the result.

Each entry of `STALE` is a function of a state and a tensor, and what changes in the state between two calls.
"""

from types import SimpleNamespace

import torch
from torch.nn import functional as F

LOWEST = torch.finfo(torch.float32).min
HALVES = (torch.float16, torch.bfloat16)


def hpu(*values, dtype=torch.float32):
    return torch.tensor(values, dtype=dtype, device="hpu")


def state():
    """What all functions get: numbers, flags and tensors."""
    return SimpleNamespace(
        scale=2.0,
        shift=1.0,
        flag=False,
        axis=0,
        first=0,
        mask=hpu(0.0, 0.0, 0.0, -1e9),
        weight=hpu(1.0, 2.0, 3.0, 4.0),
        other=hpu(1.0, 2.0, 3.0, 4.0),
        bits=hpu(False, False, True, False, dtype=torch.bool),
        table=[1.0, 2.0, 3.0, 1e8],
        options={"power": 2.0},
        ids=hpu(0, 1, 2, 3, dtype=torch.int64),
        cast=torch.float32,
    )


def attention(s, x):
    scores = x[:, None] * x[None, :] * s.scale + torch.full((4, 4), LOWEST, device="hpu").triu(1)
    return torch.cat([scores.softmax(-1), scores])


def fp8(s, x):
    return (x * s.scale).to(torch.float8_e4m3fn).to(torch.bfloat16) * 1.0


def fp8_outlier(s, x):
    small = (x * s.scale).to(torch.float8_e5m2).float()
    return torch.cat([small, torch.full((4,), 57344.0, device="hpu")])


def fp8_bytes(s, x):
    return (x * s.scale).to(torch.float8_e4m3fn)


def fp8_products(s, x):
    a = (x.repeat(4, 1) * s.scale).to(torch.float8_e4m3fn).to(torch.bfloat16)
    return a @ a.t() + hpu(448.0, 0, 0, 0, dtype=torch.bfloat16).diag()


def half_outlier(dtype):
    return lambda s, x: torch.cat(
        [x.to(dtype) * s.scale, torch.full((1,), torch.finfo(dtype).max, device="hpu", dtype=dtype)]
    )


STALE = {
    "masked_fill": (lambda s, x: (x * s.scale).masked_fill(x > 2, -1e9), dict(scale=300.0)),
    "masked_fill with the lowest": (lambda s, x: (x * s.scale).masked_fill(x > 2, LOWEST), dict(scale=2.5)),
    "masked_fill with infinity": (lambda s, x: (x * s.scale).masked_fill(x > 2, -torch.inf), dict(scale=2.5)),
    "an additive mask": (lambda s, x: x * s.scale + s.mask, dict(scale=2.001)),
    "a mask of another place": (lambda s, x: x + s.mask * 1e-9, dict(mask=lambda: hpu(0.0, 0.0, -1e9, 0.0))),
    "scores of attention": (attention, dict(scale=2.01)),
    "an outlier by cat": (lambda s, x: torch.cat([x * s.scale, hpu(1e30)]), dict(scale=2.1)),
    "an outlier by stack": (lambda s, x: torch.stack([x * s.scale, x * 1e20]), dict(scale=3.0)),
    "an outlier by pad": (lambda s, x: F.pad(x * s.scale, (0, 3), value=1e12), dict(scale=2.1)),
    "an outlier by where": (lambda s, x: torch.where(s.bits, 1e15, x * s.scale), dict(scale=2.1)),
    "an outlier by a write": (lambda s, x: (x * s.scale).index_fill(0, s.ids[:1], 1e10), dict(scale=2.1)),
    "an outlier in another result": (lambda s, x: (x * 1e30, x * s.scale), dict(scale=2.0000002)),
    "the last digit": (lambda s, x: x * s.scale + 1e7, dict(scale=3.0)),
    "one unit of the last place": (lambda s, x: x * s.scale, dict(scale=2.0000002384185791)),
    "a sum that cancels": (lambda s, x: (x + 1e6 * s.scale) - 1e6 * s.scale + x * s.shift, dict(shift=1.01)),
    "a difference of large ones": (lambda s, x: (x * 1e8 + s.shift * 64) - x * 1e8, dict(shift=2.0)),
    "a mean that cancels": (lambda s, x: (x * s.scale - (x * s.scale).mean()) * 1e-6 + 5.0, dict(scale=20.0)),
    "layer_norm": (lambda s, x: F.layer_norm(x, (4,), s.weight * s.scale) + 1e4, dict(scale=2.5)),
    "bfloat16 by half a percent": (lambda s, x: (x * s.scale).bfloat16(), dict(scale=2.02)),
    "float16 beside its largest": (half_outlier(torch.float16), dict(scale=2.01)),
    "bfloat16 beside its largest": (half_outlier(torch.bfloat16), dict(scale=2.1)),
    "float32 after bfloat16": (lambda s, x: x.bfloat16().float() * s.scale + 0.5, dict(scale=2.05)),
    "float64 with a little": (lambda s, x: x.double() + s.shift * 1e-13, dict(shift=20.0)),
    "mixed results": (lambda s, x: (x.bfloat16() * 2, x * s.scale, x.half()), dict(scale=2.001)),
    "another dtype inside": (lambda s, x: (x * 1.1).to(s.cast).float(), dict(cast=torch.bfloat16)),
    "fp8 e4m3": (fp8, dict(scale=2.2)),
    "fp8 e5m2 beside its largest": (fp8_outlier, dict(scale=2.5)),
    "fp8 itself": (fp8_bytes, dict(scale=2.2)),
    "fp8 products": (fp8_products, dict(scale=2.2)),
    "a list that was copied": (
        lambda s, x: x + torch.tensor(s.table).to("hpu"),
        dict(table=[1.0, 2.0, 3.5, 1e8]),
    ),
    "an entry of a dict": (lambda s, x: x ** s.options["power"] + 1e5, dict(options={"power": 2.1})),
    "a tensor of another content": (lambda s, x: x * s.weight + 1e6, dict(weight=lambda: hpu(1.0, 2.0, 3.0, 4.5))),
    "a branch": (lambda s, x: (torch.relu(x - 1) if s.flag else x - 1) * 1e-3 + 1.0, dict(flag=True)),
    "a branch of one operator": (
        lambda s, x: torch.cat([(x + 1e-6 if s.flag else x - 1e-6), hpu(1e9)]),
        dict(flag=True),
    ),
    "which of two results is used": (lambda s, x: [x * 2, x * 3][s.flag] + hpu(0.0, 0, 0, 1e9), dict(flag=True)),
    "which of two is returned": (lambda s, x: [x * 2 + 1e7, x * 3 + 1e7][s.flag], dict(flag=True)),
    "which operand comes first": (
        lambda s, x: torch.sub(*([x + 1, x * 1.1] if s.flag else [x * 1.1, x + 1])),
        dict(flag=True),
    ),
    "where a slice begins": (lambda s, x: x.repeat(2)[s.first : s.first + 4] * 1.0 + s.mask, dict(first=1)),
    "along which dimension": (lambda s, x: (x[:, None] * s.weight).sum(s.axis) + 1e6, dict(axis=1)),
    "which part is returned": (lambda s, x: (x.repeat(2) * 1.0)[s.first : s.first + 4], dict(first=2)),
    "another outside tensor": (
        lambda s, x: torch.cat([x * (s.other if s.flag else s.weight), hpu(1e9)]),
        dict(flag=True, other=lambda: hpu(1.0, 2.0, 3.0, 4.0001)),
    ),
    "integers beside large ones": (
        lambda s, x: x.int() * int(s.scale) + hpu(0, 0, 0, 2**30, dtype=torch.int32),
        dict(scale=3.0),
    ),
    "the sign of zero": (lambda s, x: (x * 0) * s.scale, dict(scale=-2.0)),
    "NaN beside numbers": (lambda s, x: torch.cat([x * s.scale, hpu(float("nan"))]), dict(scale=2.1)),
}
