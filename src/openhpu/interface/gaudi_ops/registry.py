"""The table of operators in the namespace `hpu`: schema, implementation, and the operators that it calls.

Families register their operators here with a decorator, when the first name of `torch.ops.hpu` is looked up. An
implementation is a function of PyTorch's operators, registered for every backend (CompositeImplicitAutograd). Eager
mode and lazy mode run its operators, and torch.compile traces them. Meta tensors and autograd work through them.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from openhpu.compiler.program.named import Arguments as Arguments, by_name

NAMESPACE = "hpu"
F = TypeVar("F", bound=Callable[..., Any])
AUTOCAST: Any = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastHPU)  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Operator:
    """A row: the schema without its namespace, the function behind it, and the PyTorch operators it calls."""

    schema: str
    function: Callable[..., Any]
    made_of: str
    family: str

    @property
    def name(self) -> str:
        """With its overload: `cast_to_fp8_v2.scalar`."""
        return self.schema.partition("(")[0]


OPERATORS: list[Operator] = []


def operator(*schemas: str, of: str, autocast: bool = False, named: bool = False) -> Callable[[F], F]:
    """Decorator: the function is the operator of each of `schemas`. A name alone has the arguments and results that the
    function's annotations say.

    `of`: what it is made of, for the page of operators. Under torch.autocast its dtypes are those of its arguments;
    with `autocast`, arguments in float32 are cast to autocast's dtype first, as those of PyTorch's matrix products.
    With `named` the function gets `Arguments`: by their names in the schema, and `operator`, its name without overload.
    """

    def register(function: F) -> F:
        family = function.__module__.rpartition(".")[2]
        for schema in (_completed(schema, function) for schema in schemas):
            called = _named(schema, function) if named else function
            OPERATORS.append(Operator(schema, _lowered(called) if autocast else _isolated(called), of, family))
        return function

    return register


def _completed(schema: str, function: Callable[..., Any]) -> str:
    if "(" in schema:
        return schema
    signature = inspect.signature(function)  # of texts: annotations are not evaluated
    formals = [
        f"{_type(each.annotation)} {each.name}{'' if each.default is each.empty else f'={each.default!r}'}"
        for each in signature.parameters.values()
    ]
    results = signature.return_annotation.replace("tuple[", "(").replace("]", ")")
    return f"{schema}({', '.join(formals)}) -> {results}"


def _type(annotation: str) -> str:
    """As a schema writes it: `Tensor?`, `Tensor[]`, `ScalarType`."""
    text = re.sub(r"(?:list|Sequence)\[(\w+)\]", r"\1[]", annotation)
    return text.replace(" | None", "?").replace("torch.dtype", "ScalarType")


def _named(schema: str, function: Callable[[Arguments], Any]) -> Callable[..., Any]:
    formals = torch._C.parse_schema(f"{NAMESPACE}::{schema}").arguments
    return by_name(formals, function, operator=schema.partition("(")[0].partition(".")[0])


def _isolated(function: F) -> F:
    """Switches autocast off inside the operator, which chooses its own dtypes."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(AUTOCAST):
            return function(*args, **kwargs)

    return call  # type: ignore[return-value]


def _lowered(function: F) -> F:
    isolated = _isolated(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if torch.is_autocast_enabled("hpu"):
            dtype = torch.get_autocast_dtype("hpu")
            args = tuple(lower(arg, dtype) for arg in args)
            kwargs = {name: lower(arg, dtype) for name, arg in kwargs.items()}
        return isolated(*args, **kwargs)

    return call  # type: ignore[return-value]


def lower(value: Any, dtype: torch.dtype) -> Any:
    """`value`, in `dtype` if it is a tensor in float32; of a list each."""
    if isinstance(value, list):
        return [lower(part, dtype) for part in value]
    return value.to(dtype) if isinstance(value, torch.Tensor) and value.dtype is torch.float32 else value
