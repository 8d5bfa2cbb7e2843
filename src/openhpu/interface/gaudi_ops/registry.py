"""The table of operators in the namespace `hpu`, operators.tsv: schema, implementation, and what it is made of.

It is read when the first name of `torch.ops.hpu` is looked up. An implementation is a function of PyTorch's operators
in a module of this folder, registered for every backend (CompositeImplicitAutograd). Eager mode and lazy mode run its
operators, and torch.compile traces them. Meta tensors and autograd work through them.

A function whose one parameter is of the type Arguments gets the operator's arguments by their names in the schema, and
`operator`, its name without overload. Of its results the operator has as many as the schema says, from the first on.
Under torch.autocast an operator's dtypes are those of its arguments; of a row
marked `lowered`, arguments in float32 are cast to autocast's dtype first, as those of PyTorch's matrix products.
"""

import functools
import importlib
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeVar

import torch
from torch.utils._pytree import tree_map_only

from openhpu.compiler.program.named import Arguments as Arguments, by_name
from openhpu.settings import tables

NAMESPACE = "hpu"
F = TypeVar("F", bound=Callable[..., Any])
AUTOCAST: Any = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastHPU)  # type: ignore[attr-defined]


class Row(NamedTuple):
    """A row of operators.tsv. `schema`: without its namespace. `function`: with its module. `made_of`: the PyTorch
    operators that it calls. `lowered`: under autocast. `binding`: the name in Gaudi's module `_hpex_C`."""

    schema: str
    function: str
    made_of: str
    lowered: Literal["lowered", ""] = ""
    binding: str = ""

    @property
    def name(self) -> str:
        """With its overload: `cast_to_fp8_v2.scalar`."""
        return self.schema.partition("(")[0]


@functools.cache
def table() -> tables.Table[Row]:
    """The table, as it is on disk."""
    return tables.beside(__file__, "operators.tsv", Row, unique="schema")


def rows() -> tuple[Row, ...]:
    """Those of the table."""
    return table().rows


def implementation(row: Row) -> Callable[..., Any]:
    """The function behind an operator. Steps of optimizers record no gradients."""
    family, _, name = row.function.partition(".")
    function = getattr(importlib.import_module(f"{__package__}.{family}"), name)
    kinds = [kind for formal, kind in getattr(function, "__annotations__", {}).items() if formal != "return"]
    if kinds == [Arguments]:
        function = _named(row.schema, function)
    if family == "optimizer_steps":
        function = torch.no_grad()(function)
    return _isolated(function, bool(row.lowered))


def _named(schema: str, function: Callable[[Arguments], Any]) -> Callable[..., Any]:
    parsed = torch._C.parse_schema(f"{NAMESPACE}::{schema}")
    named = by_name(parsed.arguments, function, operator=schema.partition("(")[0].partition(".")[0])
    count = len(parsed.returns)

    def call(*args: Any, **kwargs: Any) -> Any:
        results = named(*args, **kwargs)
        if not isinstance(results, tuple):
            return results
        return results[0] if count == 1 else results[:count]

    return call


def one_operator(function: F) -> F:
    """A function that is one operator for autocast: rows of PyTorch's operators that it calls do not count."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_autocast_enabled("hpu"):
            return function(*args, **kwargs)
        with torch.autocast("hpu", enabled=False):
            return function(*args, **kwargs)

    return call  # type: ignore[return-value]


def _isolated(function: F, lowered: bool) -> F:
    """Switches autocast off inside the operator, which chooses its own dtypes; of `lowered` ones after the casts."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if lowered and torch.is_autocast_enabled("hpu"):
            dtype = torch.get_autocast_dtype("hpu")
            cast = lambda x: x.to(dtype) if x.dtype is torch.float32 else x  # noqa: E731
            args, kwargs = tree_map_only(torch.Tensor, cast, (args, kwargs))
        with torch._C._ExcludeDispatchKeyGuard(AUTOCAST):
            return function(*args, **kwargs)

    return call  # type: ignore[return-value]
