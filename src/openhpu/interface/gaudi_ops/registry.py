"""The table of operators in the namespace `hpu`, operators.tsv: schema, implementation, and what it is made of.

It is read when the first name of `torch.ops.hpu` is looked up. An implementation is a function of PyTorch's operators
in a module of this folder, registered for every backend (CompositeImplicitAutograd). Eager mode and lazy mode run its
operators, and torch.compile traces them. Meta tensors and autograd work through them.

A function whose one parameter is a class of `operators` gets the operator's arguments by their names in the schema. If
several operators share a function, what the schema of one of them lacks is None. Of a function's results the operator
has as many as the schema says, from the first on.

Under torch.autocast an operator's dtypes are those of its arguments; of a row marked `lowered`, arguments in float32
are cast to autocast's dtype first, as those of PyTorch's matrix products.
"""

import functools
import importlib
from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeVar

import torch
from torch.utils._pytree import tree_map_only

from openhpu.interface.gaudi_ops.arguments import Arguments
from openhpu.settings import tables

NAMESPACE = "hpu"
F = TypeVar("F", bound=Callable[..., Any])
AUTOCAST: Any = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastHPU)  # type: ignore[attr-defined]


class OperatorRow(NamedTuple):
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

    @property
    def operator(self) -> str:
        """Without its overload."""
        return self.name.partition(".")[0]


@functools.cache
def table() -> tables.Table[OperatorRow]:
    """The table, as it is on disk."""
    return tables.beside(__file__, "operators.tsv", OperatorRow, unique="schema")


def rows() -> tuple[OperatorRow, ...]:
    """Those of the table."""
    return table().rows


def parsed(row: OperatorRow) -> Any:
    """The schema as PyTorch parses it. Raises TableError where it does not."""
    try:
        return torch._C.parse_schema(f"{NAMESPACE}::{row.schema}")
    except RuntimeError as error:
        raise table().error(row, "schema", str(error).strip()) from None


@functools.cache
def formals() -> dict[str, dict[str, list[Any]]]:
    """The arguments of the functions of the table: by function and name, those of each row that has one."""
    found: dict[str, dict[str, list[Any]]] = {}
    for row in rows():
        of_function = found.setdefault(row.function, {})
        for formal in parsed(row).arguments:
            of_function.setdefault(formal.name, []).append(formal)
    return found


def implementation(row: OperatorRow) -> Callable[..., Any]:
    """The function behind an operator. Steps of optimizers record no gradients.

    Raises TableError for a row whose function does not exist.
    """
    family, _, name = row.function.partition(".")
    try:
        function = getattr(importlib.import_module(f"{__package__}.{family}"), name)
    except (ImportError, AttributeError) as error:
        raise table().error(row, "function", str(error)) from None
    if kind := arguments_of(function):
        function = _named(row, function, kind)
    if family == "optimizer_steps":
        function = torch.no_grad()(function)
    return _isolated(function, bool(row.lowered))


def arguments_of(function: Callable[..., Any]) -> type[Arguments] | None:
    """The class of a function's only parameter, if its base is Arguments."""
    hints = {**getattr(function, "__annotations__", {})}
    hints.pop("return", None)
    kinds = [kind for kind in hints.values() if isinstance(kind, type) and issubclass(kind, Arguments)]
    return kinds[0] if len(kinds) == len(hints) == 1 else None


def _named(row: OperatorRow, function: Callable[[Any], Any], kind: type[Arguments]) -> Callable[..., Any]:
    schema = parsed(row)
    names = [formal.name for formal in schema.arguments]
    defaults: dict[str, Any] = dict.fromkeys(formals()[row.function])
    defaults |= {formal.name: formal.default_value for formal in schema.arguments if formal.has_default_value()}
    defaults["operator"] = row.operator
    count = len(schema.returns)

    def call(*args: Any, **kwargs: Any) -> Any:
        results = function(kind(**defaults | dict(zip(names, args, strict=False)) | kwargs))
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
