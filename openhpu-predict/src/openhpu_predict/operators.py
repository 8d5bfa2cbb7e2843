"""What an operator does: the kind of its work, its engine, and the size of its matrix products."""

import enum
import functools
import itertools
import math
import tomllib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_leaves

from openhpu_predict.devices import DATA


class Kind(enum.StrEnum):
    """The kind of an operator's work."""

    PRODUCT = enum.auto()
    ATTENTION = enum.auto()
    POINTWISE = enum.auto()
    ROWS = enum.auto()  # a reduction over the last dimension, a softmax or a norm
    REDUCTION = enum.auto()
    GATHER = enum.auto()
    COPY = enum.auto()
    HOST_COPY = enum.auto()
    COLLECTIVE = enum.auto()
    KERNEL = enum.auto()  # a user's operator whose kernel gives an account
    UNKNOWN = enum.auto()  # an operator without a cost of its own


ENGINES = {
    Kind.PRODUCT: "MME",
    Kind.ATTENTION: "MME",
    Kind.COPY: "DMA",
    Kind.HOST_COPY: "host",
    Kind.COLLECTIVE: "network",
}

# Batch, rows, columns, and the length of the sums of a matrix product.
Product = tuple[int, int, int, int]

_NAMES = tomllib.loads((DATA / "operators.toml").read_text())
NOTHING = frozenset(_NAMES.pop("nothing"))
_KINDS = {name: Kind(kind) for kind, names in _NAMES.items() for name in names}
_COLLECTIVES = {"c10d", "_c10d_functional", "c10d_functional", "hccl", "_c10d_functional_autograd"}
# Namespaces of PyTorch and of Gaudi. An operator of another one is a user's.
_KNOWN = _COLLECTIVES | {"aten", "prims", "prim", "hpu", "fsdp", "profiler", "quantized", "_quantized", "inductor"}
# Steps of a TPC for an element. A step of any other operator is one.
_STEPS = {
    name: 8
    for name in (
        "exp",
        "log",
        "tanh",
        "sigmoid",
        "silu",
        "gelu",
        "erf",
        "rsqrt",
        "sqrt",
        "softmax",
        "div",
        "sin",
        "cos",
        "norm",
        "adam",
        "reciprocal",
    )
}
# Of a score. Forward: scale, mask, maximum, difference, exponential (8), sum, quotient, and a cast from and to the type
# of the products. Backward: scale, mask, difference and exponential once more; difference, product and scale of the
# gradient; a cast from and to the type of the products for scores, weights and the gradients of both.
_ATTENTION_STEPS, _ATTENTION_BACKWARD_STEPS = 16, 20


def name_of(func: torch._ops.OpOverload) -> str:
    """An operator's name without its overload; a user's operator has its namespace, too."""
    plain = func.overloadpacket.__name__
    return plain if func.namespace in _KNOWN else f"{func.namespace}::{plain}"


def kind(func: torch._ops.OpOverload, tensors: Sequence[torch.Tensor], outs: Sequence[torch.Tensor]) -> Kind:
    """The kind of a call. `tensors` are its operands, `outs` its results."""
    name = func.overloadpacket.__name__
    known = _KINDS.get(name, Kind.UNKNOWN)
    if func.namespace in _COLLECTIVES and "wait" not in name:
        return Kind.COLLECTIVE
    if "scaled_dot_product" in name or "sdpa" in name:
        return Kind.ATTENTION
    if len({tensor.device.type for tensor in (*tensors, *outs)} - {"meta"}) > 1 and name in ("_to_copy", "copy_"):
        return Kind.HOST_COPY
    if name == "_local_scalar_dense":
        return Kind.HOST_COPY
    if known is Kind.REDUCTION:
        last = bool(outs and tensors) and tuple(outs[0].shape[: tensors[0].dim() - 1]) == tuple(tensors[0].shape[:-1])
        return Kind.ROWS if last and tensors[0].dim() > 1 else known
    if known is Kind.UNKNOWN and (name.startswith("_foreach_") or torch.Tag.pointwise in func.tags):
        return Kind.POINTWISE
    return known


def into(
    func: torch._ops.OpOverload, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[list[torch.Tensor], list[torch.Tensor]] | None:
    """The inputs and outputs of a copy or a collective that writes into operands, else None."""

    def tensors(side: Any) -> list[torch.Tensor]:
        return [leaf for leaf in tree_leaves(side) if isinstance(leaf, torch.Tensor)]

    if func.overloadpacket.__name__ == "all_gather_copy_in":
        return tensors(args[0]), [args[1][: sum(one.numel() for one in tensors(args[0]))]]  # this card's part
    if "out" in kwargs:
        return tensors(args), tensors(kwargs["out"])
    if func.namespace != "c10d":
        return None
    return tensors(args[1:2]) or tensors(args[0]), tensors(args[0])  # one list alone is changed in place


def product(func: torch._ops.OpOverload, args: Sequence[Any], outs: Sequence[torch.Tensor]) -> list[Product]:
    """The matrix products of a call. A convolution is the product of its patches with its weights."""
    name = func.overloadpacket.__name__
    if name == "convolution_backward":
        gradient, image, weight = args[0], args[1], args[2]
        return [_convolution(weight, image if args[7] else gradient)] * sum(bool(wanted) for wanted in args[10][:2])
    if "convolution" in name:
        return [_convolution(args[1], args[0] if args[6] else outs[0])]
    if name == EXPERTS:
        return experts(func, args).products
    tensors = [one for one in args if isinstance(one, torch.Tensor)]
    if name == "matmul":
        return [_shared(tensors[0].shape, tensors[1].shape)]
    if name.startswith("fp8_gemm"):
        sides = [_turned(args[at].shape, args[at + 1]) for at in (0, 2)]
        if min(map(len, sides)) > 2 and sides[0][:-2] != sides[1][:-2]:
            return [_shared(*sides)]
    return [_plain_product(name, args, tensors, outs[0])]


def _plain_product(name: str, args: Sequence[Any], tensors: list[torch.Tensor], out: torch.Tensor) -> Product:
    """Of `mm` and its relatives. `tensors`: those among the arguments."""
    first = 1 if name in ("addmm", "baddbmm") else 0
    left = tensors[first]
    length = left.shape[-2] if name.startswith("fp8_gemm") and args[1] else left.shape[-1]
    rows, columns = (out.shape[-2], out.shape[-1]) if out.dim() > 1 else (max(out.numel(), 1), 1)
    batch = math.prod(out.shape[:-2])
    if name in ("bmm", "baddbmm") and tensors[first + 1].stride(0) == 0:  # one matrix for the whole batch
        rows, batch = rows * batch, 1
    return batch, int(rows), int(columns), int(length)


EXPERTS = "mixture_of_experts"
_EXPERTS_WEIGHTS = ("w1", "w2", "w3", "w12")


class Experts(NamedTuple):
    """What a mixture of experts computes: its products, its weights, and the share of them that it reads."""

    products: list[Product]
    weights: list[torch.Tensor]
    share: float


def experts(func: torch._ops.OpOverload, args: Sequence[Any]) -> Experts:
    """The work of `torch.ops.hpu.mixture_of_experts`. Tokens are taken to choose all experts equally often.

    An expert that no token chose is not read. The others are a batch of products, each with its tokens as rows.
    """
    given = {one.name: value for one, value in zip(func._schema.arguments, args, strict=False)}
    tokens, chosen = given["expert_routing_table"].shape
    lists = [value for name, value in given.items() if name in _EXPERTS_WEIGHTS]
    number = len(lists[0])
    share = 1.0 - (1.0 - min(chosen / number, 1.0)) ** tokens
    used = max(math.ceil(number * share), 1)
    rows = max(math.ceil(tokens * chosen / used), 1)
    products: list[Product] = []
    for weights in lists:
        columns, length = weights[0].shape[-2:]
        if not given["permuted_weights"]:
            columns, length = length, columns
        packed = 2 if weights[0].dtype is torch.uint8 else 1  # two numbers of four bits in a byte
        products.append((used, rows, int(columns), int(length) * packed))
    return Experts(products, [one for weights in lists for one in weights], share)


def one_expert(function: Callable[..., Any], func: torch._ops.OpOverload) -> Callable[..., Any]:
    """A mixture of experts that runs `function`, its implementation, for the first expert alone under fake tensors.

    The sum over all experts has the same shape and type. Lists that do not fit each other stay whole, for its errors.
    """
    names = [one.name for one in func._schema.arguments]

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        given = dict(zip(names, args, strict=False)) | kwargs
        lists = {name: value for name, value in given.items() if isinstance(value, (list, tuple))}
        number = given["experts_max"] - given["experts_min"] + 1
        fake = isinstance(given["hidden_states"], FakeTensor)
        if not fake or number < 1 or {len(value) for value in lists.values()} != {number}:
            return function(*args, **kwargs)
        first = {name: value[:1] for name, value in lists.items()}
        return function(**given | first | {"experts_max": given["experts_min"]})

    return call


def distinct_bytes(tensor: torch.Tensor) -> int:
    """The bytes of a tensor's elements. A dimension that is expanded (stride 0) has one element."""
    sizes = (size for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if stride or not size)
    return math.prod(sizes) * tensor.element_size() if tensor.layout is torch.strided else tensor.nbytes


def shares(func: torch._ops.OpOverload, args: Sequence[Any]) -> bool:
    """Whether a batched matrix product uses matrices of one side several times, as heads that share a key do.

    The MME reads them where they are. PyTorch's composite operator would copy them for each use.
    """
    if func.overloadpacket.__name__ != "matmul":
        return False
    left, right = args[0], args[1]
    return min(left.dim(), right.dim()) > 2 and left.shape[:-2] != right.shape[:-2]


def _turned(shape: Sequence[int], turn: bool) -> Sequence[int]:
    return (*shape[:-2], shape[-1], shape[-2]) if turn else tuple(shape)


def _shared(left: Sequence[int], right: Sequence[int]) -> Product:
    """A batched matrix product. Along a batch dimension of one side alone, that side has more rows or columns."""
    batch, rows, columns = 1, int(left[-2]), int(right[-1])
    sizes = itertools.zip_longest(reversed(left[:-2]), reversed(right[:-2]), fillvalue=1)
    for one, other in sizes:
        if other == 1:
            rows *= int(one)
        elif one == 1:
            columns *= int(other)
        else:
            batch *= int(one)
    return batch, rows, columns, int(left[-1])


def _convolution(weight: torch.Tensor, pixels: torch.Tensor) -> Product:
    """`pixels`: the image whose channels are the weight's first dimension."""
    return 1, pixels.numel() // max(pixels.shape[1], 1), int(weight.shape[0]), math.prod(weight.shape[1:])


def attention(func: torch._ops.OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Product]:
    """The products of an attention: scores, and scores with values. A backward pass has five in the place of two.

    A causal one counts half of the columns.
    """
    name = func.overloadpacket.__name__
    tensors = [one for one in args if isinstance(one, torch.Tensor) and one.dim() == 4]
    backward = _is_backward(name)
    query, key = tensors[1 if backward else 0], tensors[2 if backward else 1]
    names = [argument.name for argument in func._schema.arguments]
    at = names.index("is_causal") if "is_causal" in names else len(args)
    causal = bool(kwargs.get("is_causal", args[at] if at < len(args) else False))
    columns = int(key.shape[-2]) // (2 if causal and query.shape[-2] > 1 else 1)
    batch = math.prod(query.shape[:-2])
    rows = int(query.shape[-2])
    width = int(query.shape[-1])
    groups = max(int(query.shape[1]) // max(int(key.shape[1]), 1), 1)  # heads that share a key become rows
    batch //= groups
    rows *= groups
    pair: list[Product] = [(batch, rows, max(columns, 1), width), (batch, rows, width, max(columns, 1))]
    return [pair[0], *pair, *pair] if backward else pair


def attention_steps(name: str) -> int:
    """The TPC's steps for a score of an attention."""
    return _ATTENTION_BACKWARD_STEPS if _is_backward(name) else _ATTENTION_STEPS


def _is_backward(name: str) -> bool:
    return "backward" in name or "bwd" in name


def steps(name: str) -> int:
    """The TPC's steps for an element."""
    return max((cost for word, cost in _STEPS.items() if word in name), default=1)
