"""The inference models of the benchmark `graphs`, written for JAX; weights are constants of the compiled function.

No translator of PyTorch modules runs with this PyTorch.
"""

import importlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn


def compiled(model: nn.Module, x: Tensor) -> tuple[Callable[[], Any], Callable[[Any], Tensor]]:
    """A call of `model` on `x` by jax.jit, and what copies its result to a tensor. Raises ImportError without JAX."""
    jax = importlib.import_module("jax")
    function = _TRANSLATIONS[type(model).__name__](jax, model)
    run, given = jax.jit(function), jax.numpy.asarray(x.numpy())
    return lambda: run(given).block_until_ready(), lambda result: torch.from_numpy(jax.device_get(result).copy())


def _array(jax: Any, parameter: Any) -> Any:
    return jax.numpy.asarray(parameter.detach().numpy())


def _linear(jax: Any, weight: Any, bias: Any) -> Callable[[Any], Any]:
    w, b = _array(jax, weight), _array(jax, bias)
    return lambda x: x @ w.T + b


def _norm(jax: Any, layer: Any) -> Callable[[Any], Any]:
    w, b = _array(jax, layer.weight), _array(jax, layer.bias)

    def norm(x: Any) -> Any:
        mean = x.mean(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(((x - mean) ** 2).mean(-1, keepdims=True) + layer.eps) * w + b

    return norm


def _chain(jax: Any, _: Any) -> Callable[[Any], Any]:
    def chain(x: Any) -> Any:
        y = jax.numpy.tanh(x * 1.5 + 0.25)
        return jax.nn.sigmoid(jax.nn.relu(y * y + x) - 0.5)

    return chain


def _mlp(jax: Any, model: Any) -> Callable[[Any], Any]:
    layers = [(_linear(jax, part[0].weight, part[0].bias), _norm(jax, part[2])) for part in model]

    def mlp(x: Any) -> Any:
        for linear, norm in layers:
            x = norm(jax.nn.gelu(linear(x), approximate=False))
        return x

    return mlp


def _encoder(jax: Any, layer: Any) -> Callable[[Any], Any]:
    attention = layer.self_attn
    project = _linear(jax, attention.in_proj_weight, attention.in_proj_bias)
    out = _linear(jax, attention.out_proj.weight, attention.out_proj.bias)
    up, down = (_linear(jax, part.weight, part.bias) for part in (layer.linear1, layer.linear2))
    first, second = _norm(jax, layer.norm1), _norm(jax, layer.norm2)
    heads = attention.num_heads

    def encoder(x: Any) -> Any:
        batch, length, width = x.shape
        q, k, v = project(x).reshape(batch, length, 3, heads, width // heads).transpose(2, 0, 3, 1, 4)
        weights = jax.nn.softmax(q @ k.swapaxes(-1, -2) / (width // heads) ** 0.5, -1)
        x = first(x + out((weights @ v).swapaxes(1, 2).reshape(batch, length, width)))
        return second(x + down(jax.nn.relu(up(x))))

    return encoder


_TRANSLATIONS: dict[str, Callable[[Any, Any], Callable[[Any], Any]]] = {
    "Chain": _chain,
    "Sequential": _mlp,
    "TransformerEncoderLayer": _encoder,
}
