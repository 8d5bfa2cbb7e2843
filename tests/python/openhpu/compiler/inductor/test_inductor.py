"""What Inductor is driven by: what takes the place of PyTorch's own functions while it compiles."""

import contextlib
import importlib
import inspect
import pkgutil
import warnings

from openhpu.compiler.inductor import casts, dropped_stores, kernel_marks, overwritten_operands, toolchain
from tests.python.openhpu import private_names


def values(names):
    return {name: pkgutil.resolve_name(name) for name in names}


def bound(replacement, original):
    """What `replacement` takes for the arguments that `original` does: those with a default by name. TypeError."""
    needed, named = [], {}
    for parameter in inspect.signature(original).parameters.values():
        if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            if parameter.default is parameter.empty:
                needed.append(parameter.name)
            else:
                named[parameter.name] = parameter.default
    return inspect.signature(replacement).bind(*needed, **named)


def test_a_replacement_takes_all_arguments_of_pytorchs_function(tmp_path):
    """A newer PyTorch may have one more, and give it."""
    with warnings.catch_warnings(action="ignore"):
        importlib.import_module("torch._inductor.compile_fx")
    names = [name for name in private_names.used() if name.startswith("torch._inductor.")]
    before = values(names)
    with contextlib.ExitStack() as stack:
        for patched in (
            casts.as_on_cpu(),
            dropped_stores.guarded(),
            kernel_marks.marked(),
            overwritten_operands.kept(),
            toolchain.quick(tmp_path),
        ):
            stack.enter_context(patched)
        now = values(names)
        replaced = [name for name in names if now[name] is not before[name]]
        refused = {}
        for name in replaced:
            try:
                bound(now[name], before[name])
            except TypeError as error:
                refused[name] = str(error)
    assert "torch._inductor.lowering.mutate_to" in replaced
    assert len(replaced) > 10
    assert refused == {}
