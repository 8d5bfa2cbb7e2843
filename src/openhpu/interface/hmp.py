"""Habana Mixed Precision: functions that compute in bfloat16 and in float32, from `convert` on.

It does the work of torch.autocast("hpu") for scripts that were written for HMP. A mode of PyTorch
(torch.overrides.TorchFunctionMode) sees each call of a function of torch, of torch.nn.functional and of tensors. It
casts their floating-point tensors on hpu, except float64, by copies, which autograd records as CopyBackwards. It does
not see calls inside such a function. The mode belongs to the thread that imports this module. With this module the
device's old name, `habana`, means `hpu`.
"""

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_iter, tree_map

from openhpu.interface import autocast_lists

OLD_NAME = "habana"

GEMMS = frozenset({"addmm", "bmm", "conv1d", "conv2d", "conv3d", "dot", "mm", "mv"})
FP32 = frozenset({"batch_norm", "cross_entropy", "log_softmax", "nll_loss", "softmax", "topk"})
# Of several tensors, all take the widest dtype among them.
WIDEST = frozenset(autocast_lists.PROMOTE) | {
    "atan2",
    "bilinear",
    "cross",
    "div",
    "eq",
    "equal",
    "fmod",
    "ge",
    "gt",
    "hstack",
    "index_put",
    "le",
    "lt",
    "maximum",
    "minimum",
    "ne",
    "remainder",
    "scatter_add",
    "stack",
    "true_divide",
    "vstack",
    "where",
}

# Products that PyTorch had as Python code, which called one of these; today they are functions of their own.
_MADE_OF = {"linear": "addmm", "matmul": "mm", "baddbmm": "bmm", "addbmm": "bmm", "addmv": "mv"}
_SPELLINGS = {"truediv": "true_divide", "rmatmul": "matmul", "rmul": "mul", "radd": "add", "rsub": "sub"}
_CAST = (torch.float32, torch.bfloat16, torch.float16)
# Functions that copy, convert or describe tensors: their purpose is a dtype.
_NEVER = frozenset(
    {
        "copy",
        "to",
        "type",
        "type_as",
        "set",
        "get",
        "backward",
        "float",
        "double",
        "half",
        "bfloat16",
        "clone",
        "detach",
        "requires_grad",
        "grad",
        "data",
        "hpu",
        "cpu",
        "is_same_size",
        "set_data",
        "broadcast_tensors",
    }
)


class _Lists(NamedTuple):
    bf16: frozenset[str]
    fp32: frozenset[str]
    rest_in_fp32: bool
    verbose: bool


_lists: _Lists | None = None
_disabled = 0


def convert(opt_level: str = "O1", bf16_file_path: str = "", fp32_file_path: str = "", isVerbose: bool = False) -> None:
    """Compute in mixed precision from now on.

    `opt_level`: O1, functions of two lists in bfloat16 and in float32, others in their first tensor's dtype, those of
    several equal operands in the widest of theirs; O2, products and convolutions in bfloat16, all others in float32.
    In-place functions keep the dtype of what they write. `bf16_file_path`, `fp32_file_path`: files that replace O1's
    lists, a name in each line. `isVerbose`: print each cast. Raises ValueError for another level, SettingError for a
    file that cannot be read or holds something else than names. Source: seed 004.
    """
    global _lists
    if opt_level not in ("O1", "O2"):
        raise ValueError(f"hmp.convert: opt_level is {opt_level!r}; expected O1 or O2")
    bf16, fp32 = GEMMS, FP32
    if opt_level == "O1" and bf16_file_path:
        bf16 = frozenset(autocast_lists.read_list("bf16_file_path", Path(bf16_file_path)))
    if opt_level == "O1" and fp32_file_path:
        fp32 = frozenset(autocast_lists.read_list("fp32_file_path", Path(fp32_file_path)))
    _lists = _Lists(bf16, fp32, opt_level == "O2", isVerbose)


@contextmanager
def disable_casts() -> Iterator[None]:
    """Nothing is cast inside: for the optimizer's step, for instance."""
    global _disabled
    _disabled += 1
    try:
        yield
    finally:
        _disabled -= 1


class _Mode(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if any(map(_is_old_name, (*args, *kwargs.values()))):
            args = tuple(map(_new_name, args))
            kwargs = {name: _new_name(value) for name, value in kwargs.items()}
        if _lists is None or _disabled:
            return func(*args, **kwargs)
        dtype = _dtype_for(_lists, func, args, kwargs)
        if dtype is None:
            return func(*args, **kwargs)
        changed = [False]

        def cast(value: Any) -> Any:
            if not _is_castable(value) or value.dtype is dtype:
                return value
            changed[0] = True
            return torch.empty_like(value, dtype=dtype, requires_grad=False).copy_(value)

        args, kwargs = tree_map(cast, args), tree_map(cast, kwargs)
        if changed[0] and _lists.verbose:
            print(f"casting  {func}  to  {'to_bf16' if dtype is torch.bfloat16 else 'to_fp32'}")
        return func(*args, **kwargs)


def _is_old_name(value: Any) -> bool:
    return isinstance(value, str) and (value == OLD_NAME or value.startswith(OLD_NAME + ":"))


def _new_name(value: Any) -> Any:
    return "hpu" + value[len(OLD_NAME) :] if _is_old_name(value) else value


def _is_castable(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.device.type == "hpu" and value.dtype in _CAST


def _dtype_for(lists: _Lists, func: Any, args: Any, kwargs: Any) -> torch.dtype | None:
    """The dtype in which the function is to compute; None: as it is called."""
    full = getattr(func, "__name__", "")
    name = full.strip("_")
    in_place = full.endswith("_") and not full.endswith("__")
    if full.startswith("__i") and name[1:] in ("add", "sub", "mul", "truediv", "matmul", "pow", "floordiv"):
        in_place = True
        name = name[1:]
    name = _SPELLINGS.get(name, name)
    if name in _NEVER or full in ("__get__", "__set__"):
        return None
    tensors = [value for value in tree_iter((args, kwargs)) if _is_castable(value)]
    if not tensors:
        return None
    first: torch.dtype = tensors[0].dtype
    if in_place:
        return first
    made_of = _MADE_OF.get(name)
    if name in lists.bf16 or (made_of in lists.bf16 and name not in lists.fp32):
        return torch.bfloat16
    if name in lists.fp32 or lists.rest_in_fp32:
        return torch.float32
    if len(tensors) == 1:
        return None
    if name in WIDEST:
        return functools.reduce(torch.promote_types, [tensor.dtype for tensor in tensors])
    return first


_mode = _Mode()
_mode.__enter__()
