"""Random operators of hpu: functions of a seed, which is an input of a recipe.

Element i, in logical order, is a function of the seed and i: PyTorch's Philox4x32-10 with the seed as the key and i as
the counter. Inductor's generated code draws the same numbers. The common distributions become generated code that fuses
with the code that uses the numbers. The others call the device's own kernels (`openhpu::draw`). Both give the numbers
of eager mode, bit for bit.

The compile process does not load the core, which registers these operators. There their schemas declare them.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

_SCHEMAS = (
    "uniform_(Tensor(a!) self, Scalar seed, float from, float to) -> Tensor(a!)",
    "normal_(Tensor(a!) self, Scalar seed, float mean, float std) -> Tensor(a!)",
    "bernoulli_.float(Tensor(a!) self, Scalar seed, float p) -> Tensor(a!)",
    "bernoulli_.Tensor(Tensor(a!) self, Scalar seed, Tensor p) -> Tensor(a!)",
    "random_.from(Tensor(a!) self, Scalar seed, Scalar start, Scalar range) -> Tensor(a!)",
    "random_(Tensor(a!) self, Scalar seed, Scalar range) -> Tensor(a!)",
    "exponential_(Tensor(a!) self, Scalar seed, float lambd) -> Tensor(a!)",
    "cauchy_(Tensor(a!) self, Scalar seed, float median, float sigma) -> Tensor(a!)",
    "log_normal_(Tensor(a!) self, Scalar seed, float mean, float std) -> Tensor(a!)",
    "geometric_(Tensor(a!) self, Scalar seed, float p) -> Tensor(a!)",
    "randperm.generator_out(Tensor(a!) out, Scalar seed) -> Tensor(a!)",
    "native_dropout(Tensor input, Scalar seed, float p) -> (Tensor, Tensor)",
    "rrelu_with_noise(Tensor self, Scalar seed, Tensor(a!) noise, Tensor(b!) out, float lower, float upper) -> "
    "Tensor(b!)",
    "poisson(Tensor self, Scalar seed) -> Tensor",
    "binomial(Tensor count, Scalar seed, Tensor prob) -> Tensor",
    "_standard_gamma(Tensor self, Scalar seed) -> Tensor",
    "draw(str distribution, SymInt[] size, Tensor seed, Tensor[] parameters, ScalarType dtype) -> Tensor",
)
_library = torch.library.Library("openhpu", "FRAGMENT")
if not hasattr(torch.ops.openhpu, "draw"):
    for _schema in _SCHEMAS:
        _library.define(_schema)
_library.impl("draw", lambda kind, size, seed, parameters, dtype: torch.empty(size, dtype=dtype, device="meta"), "Meta")

Number = Any  # a number, or a 0-dim float64 or int64 tensor for one that changes


def _tensor(value: Number) -> Tensor:
    if isinstance(value, Tensor):
        return value
    return torch.scalar_tensor(value, dtype=torch.float64 if isinstance(value, float) else torch.int64)


def _float32(value: Number) -> Number:
    """The number rounded to float32."""
    if isinstance(value, Tensor):
        return value.to(torch.float32)
    return struct.unpack("f", struct.pack("f", value))[0]


def _draw(kind: str, size: Sequence[int], seed: Number, parameters: Sequence[Number], dtype: torch.dtype) -> Tensor:
    """The numbers of the device's kernel."""
    tensors = [_tensor(parameter) for parameter in parameters or (0,)]  # a recipe cannot pass an empty list
    # AOTInductor hands an empty list of sizes over as None.
    result: Tensor = torch.ops.openhpu.draw.default(kind, list(size) or [1], _tensor(seed), tensors, dtype)
    return result if size else result.reshape(())


def _generated(size: Sequence[int], seed: Number) -> Tensor:
    """Numbers that Inductor generates: in [0, 1], multiples of 2^-31 rounded to float32."""
    import torch._inductor.inductor_prims  # registers the operator

    return torch.ops.prims.inductor_random.default(list(size), _tensor(seed), "rand")  # type: ignore[no-any-return]


def _uniform(size: Sequence[int], dtype: torch.dtype, seed: Number, low: Number, high: Number) -> Tensor:
    if dtype != torch.float32:
        return _draw("uniform", size, seed, (low, high), dtype)
    # 31 random bits round to 1 for the top 64 values; those belong to the largest float32 below it.
    return torch.clamp_max(_generated(size, seed), 1 - 2.0**-24) * _float32(high - low) + _float32(low)


def uniform_(self: Tensor, seed: Number, low: Number, high: Number) -> Tensor:
    return self.copy_(_uniform(self.shape, self.dtype, seed, low, high))


def bernoulli_(self: Tensor, seed: Number, p: Number) -> Tensor:
    return self.copy_(_generated(self.shape, seed).to(torch.float64) < p)


def random_from_(self: Tensor, seed: Number, start: Number, size: Number) -> Tensor:
    import torch._inductor.inductor_prims  # registers the operator

    if isinstance(start, Tensor) or isinstance(size, Tensor) or size <= 0 or start + size >= 2**63:
        return self.copy_(_draw("integers", self.shape, seed, (start, size), self.dtype))
    return self.copy_(torch.ops.prims.inductor_randint.default(start, start + size, list(self.shape), _tensor(seed)))


def native_dropout(input: Tensor, seed: Number, p: Number) -> tuple[Tensor, Tensor]:
    mask = _generated(input.shape, seed) > _float32(p)
    return mask * input * _float32(1.0 / (1.0 - p)), mask


def rrelu_with_noise(self: Tensor, seed: Number, noise: Tensor, out: Tensor, lower: Number, upper: Number) -> Tensor:
    drawn = _uniform(noise.shape, noise.dtype, seed, lower, upper)
    slope = torch.where(self <= 0, drawn, torch.ones_like(drawn))
    result = self * slope
    noise.copy_(slope)
    return out.copy_(result)


def _filled(distribution: str) -> Callable[..., Tensor]:
    """A distribution that fills its first operand."""

    def fill(self: Tensor, seed: Number, *parameters: Number) -> Tensor:
        return self.copy_(_draw(distribution, self.shape, seed, parameters, self.dtype))

    return fill


def _sampled(distribution: str) -> Callable[..., Tensor]:
    """A distribution whose parameters are tensors."""

    def sample(first: Tensor, seed: Number, *others: Tensor) -> Tensor:
        size = torch.broadcast_shapes(first.shape, *(other.shape for other in others))
        return _draw(distribution, size, seed, (first, *others), first.dtype)

    return sample


# By operator. Each function has the arguments of the operator, with 0-dim tensors for the numbers that vary.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "openhpu::uniform_": uniform_,
    # Of normal numbers Inductor would generate one at a time.
    **{f"openhpu::{n}_": _filled(n) for n in ("normal", "exponential", "cauchy", "log_normal", "geometric")},
    "openhpu::bernoulli_.float": bernoulli_,
    "openhpu::bernoulli_.Tensor": _filled("bernoulli_tensor"),
    "openhpu::random_.from": random_from_,
    "openhpu::random_": lambda self, seed, size: random_from_(self, seed, 0, size),
    "openhpu::randperm.generator_out": _filled("permutation"),
    "openhpu::native_dropout": native_dropout,
    "openhpu::rrelu_with_noise": rrelu_with_noise,
    **{f"openhpu::{n}": _sampled(n) for n in ("poisson", "binomial")},
    "openhpu::_standard_gamma": _sampled("gamma"),
}
