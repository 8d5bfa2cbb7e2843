"""Random operators in recipes: the numbers are the device's own, bit for bit."""

import torch

from openhpu.compiler.program import seeded
from tests.python.openhpu.compiler.recorder import Recorder

ops = torch.ops.openhpu


def distributions(f32, f64, bf16, f16, i64, i32, p, rate, seeds):
    """Each operator on each dtype that it knows, also on views with gaps and with permuted dimensions."""
    seed = iter(seeds)
    out = []
    generated = (ops.uniform_, -1.5, 2.25), (ops.normal_, 0.3, 1.7), (ops.bernoulli_.float, 0.3), (ops.random_, 1 << 8)
    called = (
        (ops.exponential_, 1.5),
        (ops.cauchy_, 0.5, 2.0),
        (ops.log_normal_, 0.1, 0.5),
        (ops.geometric_, 0.2),
    )
    for t in (f32, f64, bf16, f16, f32.t().contiguous().t(), torch.zeros(10, 9)[::2, 1::2]):
        for op, *numbers in generated + (called if t is f32 or t is f64 else ()):
            out.append(op(torch.empty_like(t), next(seed), *numbers))
    for t in (i64, i32, f32):
        out.append(getattr(ops.random_, "from")(torch.empty_like(t), next(seed), -3, 1000))
    out.append(ops.random_(torch.empty_like(i64), next(seed), 0))
    out.append(ops.bernoulli_.Tensor(torch.empty_like(f32), next(seed), p))
    out.append(ops.randperm.generator_out(torch.empty(100, dtype=torch.int64), next(seed)))
    out += [ops.poisson(rate, next(seed)), ops.binomial(rate.floor(), next(seed), p)]
    out.append(ops._standard_gamma(rate, next(seed)))
    for t in (f32, f64, bf16, f32.t()):
        out += ops.native_dropout(t, next(seed), 0.3)
    noise = torch.empty_like(f32)
    out += [noise, ops.rrelu_with_noise(f32, next(seed), noise, torch.empty_like(f32), 0.1, 0.4)]
    return out


def record(script, tensors, seeds):
    with Recorder() as recorder:
        results = script(*tensors, seeds)
    # A tensor that the script made and an operator filled is the operator's argument, not its result.
    return recorder, recorder.description(live=results, variable=lambda value: value in seeds)


def test_every_distribution(compiled):
    torch.manual_seed(0)
    tensors = [
        torch.randn(37, 11), torch.randn(37, 11, dtype=torch.float64), torch.randn(37, 11, dtype=torch.bfloat16),
        torch.randn(300, dtype=torch.float16), torch.zeros(500, dtype=torch.int64), torch.zeros(77, dtype=torch.int32),
        torch.rand(37, 11), torch.rand(37, 11) * 40,
    ]  # fmt: skip
    seeds = list(range(4_000_000_000, 4_000_000_100))
    recorder, description = record(distributions, tensors, seeds)
    assert {node["op"] for node in description["nodes"] if node["op"].startswith("openhpu::")} == set(seeded.FUNCTIONS)
    (recipe,) = compiled(description)
    first = recipe.check(recorder.storages, rtol=0, atol=0)
    others = [s + 12345 if v else s for s, v in zip(description["scalars"], description["variable"], strict=True)]
    second = recipe.check(recorder.storages, others, rtol=0, atol=0)
    assert not any(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_numbers_that_vary(compiled):
    def script(x, seeds):
        return [
            ops.uniform_(torch.empty_like(x), seeds[0], -1.25, 3.5),
            ops.normal_(torch.empty_like(x), seeds[1], 1.25, 3.5),
            *ops.native_dropout(x, seeds[2], 0.3125),
            ops.exponential_(torch.empty_like(x), seeds[3], 3.5),
            ops.bernoulli_.float(torch.empty_like(x), seeds[4], 0.3125),
        ]

    seeds = [71, 72, 73, 74, 75, 1.25, -1.25, 3.5, 0.3125]
    recorder, description = record(script, [torch.randn(50, 20)], seeds)
    (recipe,) = compiled(description)
    assert len(recipe.manifest.scalar_inputs) == sum(description["variable"]) > 8
    recipe.check(recorder.storages, rtol=0, atol=0)
    recipe.check(
        recorder.storages, [{3.5: 4.125, 0.3125: 0.7}.get(s, s) for s in description["scalars"]], rtol=0, atol=0
    )


def test_declared_as_the_core_registers_them():
    for schema in seeded._SCHEMAS:
        name, _, overload = schema.partition("(")[0].partition(".")
        assert str(getattr(getattr(ops, name), overload or "default")._schema) == f"openhpu::{schema}"


def test_dropout_is_fused(compiled):
    """Dropout between two pointwise operators is no kernel of its own."""

    def script(x, seeds):
        return [ops.native_dropout(x.exp(), seeds[0], 0.5)[0] + 1]

    _, description = record(script, [torch.randn(64, 64)], [7])
    (recipe,) = compiled(description)
    assert (recipe.manifest.kernels, dict(recipe.manifest.external_kernels)) == (1, {})
