"""Putting the table into PyTorch, and taking it out again."""

import functools
import importlib
import inspect
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import torch

from openhpu import _C
from openhpu.integration.late_imports import after_import
from openhpu.integration.migration import cuda_arguments, cuda_modules, migration_log, own
from openhpu.integration.migration.cuda_names import ROWS, CudaName

_MISSING = object()
_undo: list[Callable[[], None]] = []


def is_installed() -> bool:
    """Whether scripts written for CUDA run on hpu in this process."""
    return bool(_undo)


def install() -> None:
    """Install every row of the table, once. The device is registered before."""
    if _undo:
        return
    migration_log.start()
    # It keeps PyTorch's functions, which a device context compares with those that are called.
    importlib.import_module("torch.utils._device")._device_constructors()
    try:
        modules = _modules()
        for row in ROWS.values():
            parent = row.name.rpartition(".")[0]
            if row.install == "later":
                module = ".".join(part for part in parent.split(".") if not part[0].isupper())
                after_import(module, functools.partial(_install, row))
            elif row.install in ("object", "arguments", "value", "own") and parent not in modules:
                _install(row)
        torch.serialization.register_package(_BEFORE_PYTORCH, lambda storage: None, own.restore)
        _undo.append(lambda: _forget(own.restore))
        _undo.append(lambda: _C.translate_cuda(False))
        _C.translate_cuda(True, migration_log.made if migration_log.level else None)
    except BaseException:
        uninstall()
        raise


_BEFORE_PYTORCH = 15  # whose functions for torch.load have priorities from 20 on


def uninstall() -> None:
    """Give PyTorch its names back, in the reverse order. For tests: what a script has kept stays as it is."""
    while _undo:
        _undo.pop()()


def _install(row: CudaName) -> None:
    if not is_installed():  # any more
        return
    owner, name = row.name.rpartition(".")[0], row.name.rpartition(".")[2]
    try:
        where = cuda_modules.resolve(owner)
        before = inspect.getattr_static(where, name, _MISSING)
        if row.install == "arguments" and before is _MISSING:
            return  # another release of PyTorch has it
    except AttributeError:
        return
    value = cuda_arguments.translating(before, row.name) if row.install == "arguments" else cuda_modules.stands_for(row)
    _set(where, name, value)


def _set(owner: Any, name: str, value: Any) -> None:
    before = vars(owner).get(name, _MISSING)
    setattr(owner, name, value)
    _undo.append(lambda: delattr(owner, name) if before is _MISSING else setattr(owner, name, before))


def _modules() -> set[str]:
    """Put the modules in whose place others stand; the names of those whose rows they make themselves."""
    rows = [row for row in ROWS.values() if row.install == "module"]
    for name, prefix in [("torch.cuda", "torch.cuda"), *((row.name, row.counterpart) for row in rows)]:
        _put(name, cuda_modules.Migrated(name, sys.modules[name], prefix))
    _set(torch, "cuda", sys.modules["torch.cuda"])
    front, back = cuda_modules.Finder("pynvml"), cuda_modules.Finder("apex")
    sys.meta_path.insert(0, front)  # type: ignore[arg-type]
    sys.meta_path.append(back)  # type: ignore[arg-type]
    _undo.extend((lambda: sys.meta_path.remove(front), lambda: sys.meta_path.remove(back)))  # type: ignore[arg-type]
    if "pynvml" in sys.modules:
        _put("pynvml", cuda_modules.Migrated("pynvml", None))
    parents = {"pynvml", "apex", "apex.optimizers", "apex.normalization"}
    return {"torch.cuda", *parents, *(row.counterpart for row in rows)}


def _put(name: str, module: ModuleType) -> None:
    before = sys.modules[name]
    sys.modules[name] = module
    _undo.append(lambda: sys.modules.__setitem__(name, before))


def _forget(restore: Callable[..., Any]) -> None:
    registry = torch.serialization._package_registry
    registry[:] = [entry for entry in registry if entry[2] is not restore]
