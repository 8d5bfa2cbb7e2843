"""The cells of Gaudi's published table of operators and dtypes, as programs with arguments.

A cell is an operator under the name that scripts use (`torch.Tensor.add_`) with one dtype. The column of fp8 stands for
two dtypes. Arguments are samples of PyTorch's databases where they have the operator, else of `gaudi_samples`.
"""

import functools
import itertools
import pkgutil
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_map

from openhpu.integration.fallback import SUPPORT_TABLE, Supported
from openhpu.settings import tables
from tests import vision
from tests.conformance import gaudi_samples
from tests.conformance.database import Case, operators
from tests.conformance.execute import Arguments, seed_all
from tests.conformance.transfer import tensors_of

EAGER, LAZY, RECIPE, COMPILE = FAMILIES = ("gaudi_eager", "gaudi_lazy", "gaudi_recipe", "gaudi_compile")

COLUMNS = {
    "fp32": ("float32",),
    "bf16": ("bfloat16",),
    "fp16": ("float16",),
    "fp8": ("float8_e5m2", "float8_e4m3fn"),
    "int64": ("int64",),
    "int32": ("int32",),
    "int16": ("int16",),
    "int8": ("int8",),
    "bool": ("bool",),
}
CANDIDATES = 24  # samples of a database that are looked at
SAMPLES = 2  # of these that are used


@functools.cache
def rows() -> tuple[Supported, ...]:
    return tables.read(SUPPORT_TABLE, Supported).rows


def cells() -> int:
    """Cells of the table that say Yes."""
    return sum(getattr(row, column) == "Yes" for row in rows() for column in COLUMNS)


def cases(families: tuple[str, ...] = FAMILIES) -> list[Case]:
    """A case for each cell; for each of both dtypes where the column is fp8. Two rows of the table are one operator."""
    found = {
        Case(family, f"{row.kind}.{row.operator}", dtype): None
        for family in families
        for row in rows()
        for column, dtypes in COLUMNS.items()
        if getattr(row, column) == "Yes"
        for dtype in dtypes
    }
    return list(found)


def function_of(name: str) -> Callable[..., Any]:
    """What a script calls: a function, or a method as a function of its tensor. Modules are made by gaudi_samples."""
    kind, _, operator = name.rpartition(".")
    if kind in ("torch.nn", "torch.nn.utils"):
        return gaudi_samples.module(operator)
    if kind == "torchvision.ops":
        return getattr(vision.load(), operator)  # type: ignore[no-any-return]
    found = pkgutil.resolve_name(name)
    return found if callable(found) else lambda tensor: getattr(tensor, operator)  # a property: T


def program_of(case: Case) -> Callable[[Arguments, str], Any]:
    """The cell as a program; in-place operators give their tensor, too."""
    given = function_of(case.name)

    def program(arguments: Arguments, device: str) -> Any:
        first, args, kwargs = arguments
        function = gaudi_samples.FORMULAS.get(case.name, given) if device == "cpu" else given
        if first is gaudi_samples.FACTORY:
            return function(*args, **kwargs, device=device)
        return function(first, *args, **kwargs)

    return program


def cast(value: Any, before: torch.dtype, after: torch.dtype) -> Any:
    """The same with tensors, and dtypes that are arguments, of `before` as `after`."""

    def one(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor) and leaf.dtype is before:
            if after is torch.bool and before.is_floating_point:
                return leaf > 0
            return leaf.to(after)
        return after if leaf is before else leaf

    return tree_map(one, value)


def arguments_of(case: Case) -> Iterator[Arguments]:
    """Arguments in the cell's dtype."""
    dtype = case.torch_dtype
    seed_all(case.seed)
    given = gaudi_samples.samples(case.name, dtype)
    if given is not None:
        yield from given
        return
    for op in _entries(case.name):
        # Floats, so that indices, which are int64, are told from them.
        own = torch.float32 if torch.float32 in op.supported_dtypes("cpu") else torch.int64
        samples = op.sample_inputs_func(op, "cpu", own, False)
        for sample in itertools.islice(samples, CANDIDATES):
            arguments = sample.input, sample.args, sample.kwargs
            if any(t.numel() for t in tensors_of(arguments) if t.dtype is own):
                yield _without_zeros(case, cast(arguments, own, dtype))


def _without_zeros(case: Case, arguments: Arguments) -> Arguments:
    """Samples avoid divisors of 0; cast to integers, others become 0."""
    divides = any(word in case.name for word in ("div", "rem", "mod", "pow"))
    if not divides or case.torch_dtype.is_floating_point:
        return arguments

    def one(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor) or leaf.dtype is not case.torch_dtype:
            return leaf
        return leaf | True if leaf.dtype is torch.bool else leaf.abs().clamp(1, 4)

    return tree_map(one, arguments)  # type: ignore[no-any-return]


def _entries(name: str) -> list[Any]:
    """The databases' entries for an operator: by its own name, by an alias, or by that of the form not in place."""
    kind, _, operator = name.rpartition(".")
    spaces = {"torch.nn.functional": "nn.functional.", "torch.special": "special.", "torch.linalg": "linalg."}
    plain = operator.rstrip("_") or operator
    wanted = [f"{spaces.get(kind, '')}{operator}", f"{spaces.get(kind, '')}{plain}", plain, f"nn.functional.{plain}"]
    if operator.startswith("__"):
        wanted = [gaudi_samples.OPERATORS[operator]]
    for text in wanted:
        if found := [op for op in operators().values() if op.name == text]:
            return found
    for text in wanted:
        if found := [op for op in operators().values() if text in {alias.name for alias in op.aliases}]:
            return found
    return []
