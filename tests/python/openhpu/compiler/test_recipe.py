"""Compiled recipes do what the script did. Many cases in few compilations: each takes seconds."""

import re

import pytest
import torch
from torch import nn
from torch._inductor.exc import CppCompileError

from openhpu.compiler import CannotCompile
from openhpu.compiler.recipe import compile_recipe
from tests.python.openhpu.compiler.recorder import Recorder


def record(script, tensors, **options):
    """The description of `script(*tensors)` and, by slot, storages with the contents from before."""
    before = [tensor.detach().clone(memory_format=torch.preserve_format) for tensor in tensors]
    with Recorder() as recorder:
        results = script(*tensors)
    description = recorder.description(live=results, **options)
    for old, tensor in zip(before, tensors, strict=True):
        tensor.detach().copy_(old)
    return description, recorder.storages


def aliases(b, c):
    """Two views of one storage, one of them written between two reads."""
    v = b[:4]
    first = b * 2
    v.add_(1)
    second = b * 2
    c.view(-1)[3:9].mul_(b[2:])
    t = c.t()
    t[0].copy_(c[:, 1])
    return [first, second]


def returned_twice(a):
    x = a.clone()
    y = a + 0
    z = torch.zeros(3)
    w = torch.zeros(3)
    return [x, y, z, w, a.relu(), a.relu()]


def dtypes(h, i, m, z, none, scalar):
    halves = (h * 1.5 + h.float().to(torch.bfloat16)).sum(0)
    scalar.mul_(3)
    masked = torch.where(m, i, i // 3)
    return [halves, masked, m & ~m, z * (1 + 2j), torch.view_as_real(z) * 2, none + 1, torch.cat([none, h.float()]),
            scalar + 1, i.view(torch.float64) * 0, z.conj() * z,
            scalar.to(torch.complex64), torch.empty((), dtype=z.dtype).copy_(z[0]), z[:1].clone().view(())]  # fmt: skip


def operators(x, y, index):
    values, order = x.sort(dim=1)
    norm = torch.nn.functional.layer_norm(x, (8,))
    return [
        values, order, norm, x.cumsum(0), x @ y, torch.linalg.svdvals(x), torch.histc(x, 4), x.gather(1, index),
        x.std(0), torch.nn.functional.embedding(index, y), torch.nn.functional.max_pool2d(x[None], 2), x.topk(2).values,
        torch.fft.rfft(x), x.expand(2, 8, 8).contiguous(), x.t().contiguous(), torch.searchsorted(values[0], x[1]),
        x.argmax(1), x.logsumexp(1), torch.full((3,), float("inf")), torch.arange(5), x.tril(), x.flip(0),
        torch.var_mean(x, 1)[0],
    ]  # fmt: skip


def channels(x, w, b):
    y = torch.nn.functional.conv2d(x, w, b, padding=1)
    return [y, y.relu().to(memory_format=torch.channels_last), y.mean((2, 3))]


def writes_in_many_ways(x, y):
    fresh = torch.empty(4, 6)
    fresh[:, ::2] = x[:, ::2]
    fresh[:, 1::2].fill_(2.5)
    torch.add(x[:2], y[:2], out=fresh[2:])
    x.t()[1:3].zero_()
    y.transpose(0, 1).unsqueeze(0).add_(fresh.t())
    y.diagonal().mul_(2)
    y[1].exp_()
    return [fresh]


def test_batches(compiled):
    torch.manual_seed(0)
    more = (torch.randn(3, dtype=torch.complex64), torch.randn(0, 5), torch.tensor(2.0))
    cases = {
        "aliases": (aliases, [torch.randn(8), torch.randn(5, 3)]),
        "returned twice": (returned_twice, [torch.randn(6)]),
        "dtypes": (
            dtypes,
            [torch.randn(4, 5, dtype=torch.bfloat16), torch.randint(-9, 9, (7,)), torch.rand(7) > 0.5, *more],
        ),
        "operators": (operators, [torch.randn(8, 8), torch.randn(8, 8), torch.randint(8, (8, 8))]),
        "channels": (channels, [torch.randn(2, 3, 8, 8), torch.randn(4, 3, 3, 3), torch.randn(4)]),
        "channels last": (
            channels,
            [torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last), torch.randn(4, 3, 3, 3), torch.randn(4)],
        ),
        "writes": (writes_in_many_ways, [torch.randn(4, 6), torch.randn(4, 6)]),
    }
    recorded = [record(*case) for case in cases.values()]
    for name, result, (_, storages) in zip(cases, compiled(*(d for d, _ in recorded)), recorded, strict=True):
        assert not isinstance(result, CannotCompile), f"{name}: {result}"
        result.check(storages, rtol=2e-4, atol=2e-5)


def test_training_step_with_a_variable_rate(compiled):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    adam = torch.optim.AdamW(model.parameters(), lr=0.125, fused=True)
    x, y = torch.randn(8, 16), torch.randint(4, (8,))

    def step():
        adam.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        adam.step()
        return loss

    step()
    adam.zero_grad()
    with Recorder() as recorder:
        loss = step()
    live = [loss] + [p.grad for p in model.parameters()]
    description = recorder.description(live=live, variable=lambda value: value == 0.125)
    (result,) = compiled(description)
    assert [s.dtype for s in result.manifest.scalar_inputs] == [torch.float64]
    rate = result.manifest.scalar_inputs[0].index
    result.check(recorder.storages)
    scalars = list(description["scalars"])
    scalars[rate] = 0.001
    result.check(recorder.storages, scalars)
    weights = {s for s, storage in enumerate(recorder.storages) for p in model.parameters()
               if storage._cdata == p.untyped_storage()._cdata}  # fmt: skip
    assert weights <= set(result.manifest.mutated)


@pytest.mark.parametrize(
    ("printed", "kind", "told"),
    [
        ("header.h:1: fatal error: cannot write PCH file: No space left on device", OSError, "No space left on device"),
        ("In file included from a.cpp:\na.cpp:3:1: error: unknown type", CannotCompile, "a.cpp:3:1: error: unknown"),
        ("Segmentation fault", CannotCompile, "C++ compile error / Segmentation fault"),
    ],
)
def test_what_the_cpp_compiler_says_is_the_reason(tmp_path, monkeypatch, printed, kind, told):
    """Not its command, which is longer than a terminal's lines."""

    def fail(*_):
        raise CppCompileError(["g++", "-O1", *["-I/long/path"] * 50], printed)

    description, _ = record(lambda x: [x + 1], [torch.zeros(2)])
    monkeypatch.setattr("openhpu.compiler.inductor.inductor.build", fail)
    with pytest.raises(kind, match=re.escape(told)) as caught:
        compile_recipe(description, tmp_path)
    assert "long/path" not in str(caught.value) and not list(tmp_path.iterdir())
