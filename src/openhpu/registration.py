"""Loading the device into PyTorch: the compiled core, `torch.hpu`, and the patches that PyTorch needs."""

from __future__ import annotations

import atexit
import contextlib
import sys
import warnings
from pathlib import Path

_registered = False

_LATE = (
    "PyTorch was asked for its accelerator before the hpu device was loaded, and keeps the answer it found then, so "
    "that hpu would stay invisible. Import habana_frameworks.torch directly after torch, before anything asks "
    "torch.accelerator, pins memory or starts a DataLoader; or leave TORCH_DEVICE_BACKEND_AUTOLOAD and "
    "PT_HPU_AUTOLOAD unset, so that `import torch` loads the device."
)


class ExtensionError(ImportError):
    """The compiled core is missing or does not fit the installed PyTorch."""


def is_registered() -> bool:
    """Whether torch.hpu exists in this process."""
    return _registered


def autoload() -> None:
    """Called by PyTorch at the end of `import torch`.

    Warns, where `import habana_frameworks.torch` would raise, when the compiled core cannot be loaded, so that
    PyTorch itself stays usable.
    """
    try:
        register()
    except ExtensionError as error:
        warnings.warn(f"the hpu device is not available: {error}", RuntimeWarning, stacklevel=2)


def register() -> None:
    """Load the device into PyTorch, once. Opens no device.

    Raises SettingError for an invalid environment variable, ExtensionError when the compiled core cannot be
    loaded, RuntimeError when PyTorch has been asked for its accelerator already.
    """
    global _registered
    if _registered:
        return
    import torch

    from openhpu import settings

    settings.check_environment()
    core = _load_core(torch.__version__, str(Path(torch.__file__).parent))
    if core.registration_is_late():
        raise RuntimeError(_LATE)

    from openhpu import hpu, patches

    with contextlib.suppress(settings.SettingError):  # a rank without a module may be a script's that uses none
        hpu._lifecycle.configure()  # PyTorch may open a device without asking Python
    torch._register_device_module("hpu", hpu)  # type: ignore[no-untyped-call]
    alias_submodules("openhpu.hpu", "torch.hpu")
    patches.apply()
    from openhpu.profiler import whole_process

    if whole_process.enabled():
        whole_process.start()  # first, so that it writes when all else has ended
    atexit.register(_settle_autograd)

    from openhpu.distributed import process_group

    process_group.register()
    atexit.register(process_group.leave_after_error)
    _registered = True

    from openhpu.smi import publisher

    publisher.install()
    if folder := settings.get("OPENHPU_REPORT_DATA"):
        from openhpu.insight import collector

        collector.start(folder)


def _settle_autograd() -> None:
    """Let autograd's threads finish before Python ends.

    A backward returns before its last thread has dropped what it held, and a thread that drops a tensor of the script's
    takes Python's lock. In a Python that is ending it would be stopped there, amid C++ code that can't be: an abort.
    """
    from openhpu import _C

    tasks = Path("/proc/self/task")
    try:
        threads = [(task / "comm").read_text() for task in tasks.iterdir()]
    except OSError:  # a thread that just ended, or another system
        threads = ["pt_autograd"]
    if any(name.startswith("pt_autograd") for name in threads):
        _C.settle_autograd()


def alias_submodules(package: str, alias: str) -> None:
    """Let `alias.x` name the module object `package.x`, for every loaded submodule of `package`."""
    prefix = package + "."
    for name in [name for name in sys.modules if name.startswith(prefix)]:
        sys.modules.setdefault(alias + name[len(package) :], sys.modules[name])


def _load_core(torch_version: str, folder: str):  # type: ignore[no-untyped-def]  # a compiled module
    _check_version(torch_version, folder)
    try:
        from openhpu import _C
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) or "cannot import name '_C'" in str(error):
            raise ExtensionError(
                "its compiled core, openhpu._C, is missing; build it with `make build` or `pip install .`"
            ) from error
        raise ExtensionError(_misfit(torch_version, folder, str(error))) from error
    return _C


def _check_version(torch_version: str, folder: str) -> None:
    """Before the core is loaded: what one release of PyTorch calls in it may do something else in another one."""
    try:
        built = _built_with()
    except ImportError:  # the build is incomplete, as the core's own import is going to tell
        return
    if torch_version.split("+")[0].split(".")[:2] != built.split(".")[:2]:
        raise ExtensionError(_misfit(torch_version, folder))


def _built_with() -> str:
    from openhpu import _machine

    return ".".join(map(str, _machine.torch_version))


def _misfit(torch_version: str, folder: str, reason: str = "") -> str:
    built = _built_with()
    return (
        f"its compiled core was built with PyTorch {built} and does not fit the installed PyTorch {torch_version} "
        f"({f'{reason}; ' if reason else ''}in {folder}). Install that one with `pip install torch=={built}`, or build "
        "openhpu again with `make build` or `pip install .`"
    )
