"""Arguments for cells of Gaudi's table that PyTorch's databases have no sample for: factories, modules, methods."""

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch

from tests.conformance.transfer import OnHost

Arguments = tuple[Any, tuple[Any, ...], dict[str, Any]]

FACTORY = "a factory"  # in place of the first argument

# Operators of Python and the database's name of what they call.
OPERATORS = {
    "__and__": "bitwise_and",
    "__iand__": "bitwise_and",
    "__or__": "bitwise_or",
    "__ior__": "bitwise_or",
    "__xor__": "bitwise_xor",
    "__ixor__": "bitwise_xor",
    "__lshift__": "bitwise_left_shift",
    "__ilshift__": "bitwise_left_shift",
    "__rshift__": "bitwise_right_shift",
    "__irshift__": "bitwise_right_shift",
}


def numbers(dtype: torch.dtype, *size: int, low: int = 1, high: int = 6) -> torch.Tensor:
    """Small numbers that every dtype holds."""
    drawn = torch.randint(low, high, size)
    return drawn % 2 == 0 if dtype is torch.bool else drawn.to(dtype)


def _factory(*args: Any, **kwargs: Any) -> Callable[[torch.dtype], Arguments]:
    return lambda dtype: (FACTORY, args, {**kwargs, "dtype": dtype})


def _fill(dtype: torch.dtype) -> Any:
    if dtype is torch.bool:
        return True
    return 2.0 if dtype.is_floating_point else 2


def _call(*sizes: tuple[int, ...], **kwargs: Any) -> Callable[[torch.dtype], Arguments]:
    """A first tensor and more of these sizes."""

    def make(dtype: torch.dtype) -> Arguments:
        first, *more = (numbers(dtype, *size) for size in sizes)
        return first, tuple(more), kwargs

    return make


def _with(size: tuple[int, ...], *args: Any, **kwargs: Any) -> Callable[[torch.dtype], Arguments]:
    """A tensor, and arguments as they are."""
    return lambda dtype: (numbers(dtype, *size), args, kwargs)


_SAMPLES: dict[str, list[Callable[[torch.dtype], Arguments]]] = {
    "torch.arange": [lambda d: (FACTORY, (0, 2 if d is torch.bool else 6), {"dtype": d})],
    **{key: [_factory(2, 3)] for key in ("torch.empty", "torch.ones", "torch.zeros")},
    "torch.empty_strided": [_factory((2, 3), (1, 2))],
    "torch.eye": [_factory(3, 4)],
    "torch.full": [lambda d: (FACTORY, ((2, 3), _fill(d)), {"dtype": d})],
    "torch.linspace": [_factory(1, 9, 5)],
    "torch.logspace": [_factory(0, 4, 5, base=2)],
    "torch.randperm": [_factory(7)],
    "torch.scalar_tensor": [lambda d: (FACTORY, (_fill(d),), {"dtype": d})],
    "torch._efficientzerotensor": [_factory((2, 3))],
    "torch.normal": [_call((20,), (20,))],
    "torch.Tensor.normal_": [_with((20,), 1.0, 2.0)],
    "torch.Tensor.uniform_": [_with((20,), 1.0, 9.0)],
    "torch.Tensor.random_": [_with((20,)), _with((20,), 0, 2)],
    "torch.Tensor.geometric_": [_with((20,), 0.3)],
    "torch.Tensor.exponential_": [_with((20,), 1.5)],
    "torch.Tensor.log_normal_": [_with((20,), 0.5, 0.25)],
    "torch._fused_dropout": [_with((20,), 0.7)],
    "torch._masked_scale": [lambda d: (numbers(d, 6), (torch.tensor([1, 0, 1, 1, 0, 1], dtype=torch.uint8), 2.0), {})],
    "torch._resize_output_": [lambda d: (numbers(d, 6), ((2, 5), torch.device("cpu")), {})],
    "torch.take": [lambda d: (numbers(d, 3, 4), (torch.tensor([0, 5, 11], dtype=torch.int32),), {})],
    "torch.Tensor.to": [
        lambda d: (numbers(torch.float32, 3, 4), (d,), {}),
        lambda d: (numbers(d, 3), (torch.float32,), {}),
    ],
    "torch.Tensor.copy_": [_call((3, 4), (3, 4)), lambda d: (numbers(d, 3), (numbers(torch.float32, 3),), {})],
    "torch.Tensor.item": [_with((1,))],
    "torch.Tensor.pin_memory": [lambda d: (OnHost(numbers(d, 3)), (), {})],
    "torch.Tensor.T": [_with((2, 3))],
    **{f"torch.Tensor.new_{what}": [_with((2,), (2, 3))] for what in ("empty", "zeros", "ones")},
    "torch.Tensor.new_full": [lambda d: (numbers(d, 2), ((2, 3), _fill(d)), {})],
    "torch.Tensor.new_empty_strided": [_with((2,), (2, 3), (1, 2))],
    "torch.Tensor.resize_": [_with((6,), (2, 3))],
    "torch.Tensor.put_": [lambda d: (numbers(d, 3, 4), (torch.tensor([0, 5]), numbers(d, 2)), {})],
    **{key: [_with((3,))] for key in ("torch.is_complex", "torch.is_floating_point")},
    "torch.is_nonzero": [_with((1,))],
    "torch.result_type": [_call((3,), (3,))],
    "torch.meshgrid": [lambda d: (numbers(d, 3), (numbers(d, 2),), {"indexing": "ij"})],
    "torch.broadcast_tensors": [lambda d: (numbers(d, 3), (numbers(d, 2, 1),), {})],
    **{key: [_with((9,))] for key in ("torch._unique", "torch._unique2")},
    "torch._adaptive_avg_pool2d": [_with((2, 3, 6, 6), (2, 3))],
    "torch._adaptive_avg_pool3d": [_with((2, 3, 4, 6, 6), (2, 3, 2))],
    "torch.embedding_renorm_": [lambda d: (numbers(d, 6, 4), (torch.tensor([0, 2, 5]), 2.0, 2.0), {})],
    "torch.embedding": [lambda d: (numbers(d, 6, 4), (torch.tensor([0, 2, 5]),), {})],
    "torch.nn.functional.embedding": [lambda d: (torch.tensor([0, 2, 5]), (numbers(d, 6, 4),), {})],
    "torch.nn.functional.one_hot": [lambda d: (torch.tensor([0, 2, 1]), (), {})],
    "torch.nn.functional.max_pool2d_with_indices": [_with((2, 3, 6, 6), 2)],
    "torch.nn.functional.max_pool3d_with_indices": [_with((2, 3, 4, 6, 6), 2)],
    "torch.nn.functional.upsample": [
        _with((2, 3, 4, 4), None, 2, "nearest"),
        _with((2, 3, 4, 4), (5, 6), None, "bilinear"),
    ],
    "torch.nn.functional.upsample_nearest": [_with((2, 3, 4, 4), None, 2)],
    "torch.grid_sampler_2d": [
        lambda d: (numbers(d, 1, 2, 4, 4), ((numbers(torch.float32, 1, 3, 3, 2) / 5 - 0.5).to(d), 0, 0, False), {})
    ],
    "torch.poisson": [_with((20,))],
    "torch.where": [lambda d: (torch.tensor([True, False, True]), (numbers(d, 2, 3), numbers(d, 3)), {})],
    "torch.Tensor.where": [lambda d: (numbers(d, 2, 3), (torch.tensor([True, False, True]), numbers(d, 3)), {})],
    "torch.searchsorted": [lambda d: (torch.tensor([1, 3, 5, 5, 9]).to(d), (numbers(d, 6),), {"right": True})],
    "torch.Tensor.norm": [_with((3, 4)), _with((3, 4), 1, 1)],
    "torch._native_batch_norm_legit_no_training": [
        lambda d: (numbers(d, 2, 4, 6), (*(numbers(d, 4) for _ in range(4)), 0.1, 1e-5), {})
    ],
    "torch._weight_norm_interface": [lambda d: (numbers(d, 4, 3), (numbers(d, 4, 1), 0), {})],
    "torch.nn.utils.weight_norm": [
        lambda d: (numbers(d, 2, 3), (), {"state": {"weight_g": numbers(d, 4, 1), "weight_v": numbers(d, 4, 3)}})
    ],
    "torchvision.ops.nms": [lambda d: (_boxes(d), (torch.tensor([0.9, 0.8, 0.7, 0.6]).to(d), 0.5), {})],
    "torchvision.ops.batched_nms": [
        lambda d: (_boxes(d), (torch.tensor([0.9, 0.8, 0.7, 0.6]).to(d), torch.tensor([0, 0, 1, 1]), 0.5), {})
    ],
    "torchvision.ops.roi_align": [lambda d: (numbers(d, 1, 2, 8, 8), ([_boxes(d)], (2, 2)), {})],
}


def _boxes(dtype: torch.dtype) -> torch.Tensor:
    return torch.tensor([[0, 0, 4, 4], [0, 0, 4, 5], [2, 2, 6, 6], [2, 2, 7, 6]]).to(dtype)


_SIZES = {"image": (2, 4, 6, 6), "line": (2, 4, 6), "cube": (1, 4, 4, 6, 6)}


class _Module(NamedTuple):
    """A row of gaudi_modules.toml. An input has sizes or a name."""

    arguments: tuple[Any, ...]
    options: dict[str, str]
    inputs: tuple[tuple[int, ...] | str, ...]


def _tupled(value: Any) -> Any:
    return tuple(map(_tupled, value)) if isinstance(value, list) else value


def _read_modules() -> dict[str, _Module]:
    rows = tomllib.loads(Path(__file__).with_name("gaudi_modules.toml").read_text())
    modules = {}
    for name, row in rows.items():
        inputs = tuple(_SIZES[each] if each in ("image", "line", "cube") else _tupled(each) for each in row["inputs"])
        modules[name] = _Module(_tupled(row["arguments"]), row.get("options", {}), inputs)
    return modules


_MODULES = _read_modules()
_SIGNED = {"PReLU", "ReLU", "LeakyReLU", "ELU", "GELU", "SiLU", "RReLU"}  # whose answer for negative numbers differs


def _masked_scale(x: torch.Tensor, mask: torch.Tensor, scale: float) -> torch.Tensor:
    return (x.double() * mask * scale).to(x.dtype)


def _fused_dropout(x: torch.Tensor, keep: float) -> tuple[torch.Tensor, torch.Tensor]:
    out, mask = torch.native_dropout(x, 1 - keep, True)
    return out, mask.to(torch.uint8)


# What stands for operators that the CPU does not have.
FORMULAS: dict[str, Callable[..., Any]] = {
    "torch._masked_scale": _masked_scale,
    "torch._fused_dropout": _fused_dropout,
    "torch._resize_output_": lambda x, size, device: x.resize_(size),
}


def _make(operator: str) -> torch.nn.Module:
    row = _MODULES[operator]
    return getattr(torch.nn, operator)(*row.arguments, **row.options)  # type: ignore[no-any-return]


def module(operator: str) -> Callable[..., Any]:
    """A module of torch.nn as a function of its inputs, with its parameters and buffers as a dictionary; weight_norm:
    a layer whose weight is normed."""
    made = (
        torch.nn.utils.weight_norm(torch.nn.Linear(3, 4, bias=False)) if operator == "weight_norm" else _make(operator)
    )
    made.requires_grad_(False)

    def call(*inputs: torch.Tensor, state: dict[str, torch.Tensor]) -> Any:
        return torch.func.functional_call(made, state, inputs)

    return call


def _input(kind: tuple[int, ...] | str, dtype: torch.dtype) -> torch.Tensor:
    match kind:
        case "probabilities":
            return torch.linspace(0.1, 0.9, 12).reshape(3, 4).to(dtype)
        case "classes":
            return torch.tensor([0, 3, 1])
        case "bags":
            return torch.tensor([[0, 3, 1], [5, 2, 2]])
    assert isinstance(kind, tuple)
    return numbers(dtype, *kind)


def samples(name: str, dtype: torch.dtype) -> list[Arguments] | None:
    """The arguments of this module for an operator and dtype; None if they come from the databases."""
    kind, _, operator = name.rpartition(".")
    if kind == "torch.nn":
        first, *more = (_input(wanted, dtype) for wanted in _MODULES[operator].inputs)
        if operator in _SIGNED and dtype.is_floating_point:
            first = first - 3
        made = _make(operator)
        state = {**dict(made.named_parameters()), **dict(made.named_buffers())}
        state = {k: v.detach().to(dtype) if v.is_floating_point() else v for k, v in state.items()}
        if operator == "Embedding":
            state = {"weight": numbers(dtype, 6, 4)}
        return [(first, tuple(more), {"state": state})]
    made_here = _SAMPLES.get(name)
    if made_here is None and name.startswith("torch.Tensor."):
        made_here = _SAMPLES.get(name.replace("torch.Tensor.", "torch."))
    return None if made_here is None else [make(dtype) for make in made_here]
