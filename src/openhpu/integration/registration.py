"""Loading the device into PyTorch: the compiled core, `torch.hpu`, and the patches that PyTorch needs."""

import atexit
import contextlib
import importlib
import sys
import threading
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

from openhpu.integration import beside_cuda, compat

_registered = False
_registering = threading.RLock()
_REGISTERING_S = 120.0  # for another thread

_LATE = (
    "PyTorch was asked for its accelerator before the hpu device was loaded, and keeps the answer it found then, so "
    "that hpu would stay invisible. Import habana_frameworks.torch directly after torch, before anything asks "
    "torch.accelerator, pins memory or starts a DataLoader; or leave TORCH_DEVICE_BACKEND_AUTOLOAD and "
    "PT_HPU_AUTOLOAD unset, so that `import torch` loads the device."
)

# Users' operators are linked with one of these, and find it by its name once it is loaded.
_LINKED = ("libhabana_pytorch_plugin.so", "libhabana_pytorch2_plugin.so")

# What the registration imports, before it changes anything of PyTorch.
_PARTS = (
    "device.lifecycle",
    "integration.distributed.process_group",
    "integration.patches",
    "interface.hpu",
    "interface.names",
    "observe.profiler.whole_process",
    "observe.smi.publisher",
)

_MISSING = "its compiled core, openhpu._C, is missing; build it with `make build` or `pip install .`"


class ExtensionError(ImportError):
    """The compiled core is missing or does not fit the installed PyTorch."""


def is_registered() -> bool:
    """Whether torch.hpu exists in this process."""
    return _registered


def is_autoload_enabled() -> bool:
    """Whether `import torch` loads the device: unless PT_HPU_AUTOLOAD is 0, or not set in a strict lazy mode."""
    settings = _settings()
    from openhpu.observe import differences

    wanted = settings.get("PT_HPU_AUTOLOAD")
    later = differences.as_gaudi("autoload") and settings.get("PT_HPU_LAZY_MODE") == "1"
    return bool(wanted == "1" or (wanted != "0" and not later))


def autoload() -> None:
    """Called by PyTorch at the end of `import torch`, which it must not fail.

    Where `import habana_frameworks.torch` would raise, this warns, and each later use of the device says why there is
    none. Beside a GPU it does not even warn. Where another thread imports a module of this package, and so waits for
    `import torch`, the first use of the device loads it.
    """
    try:
        if is_autoload_enabled():
            register()
    except Exception as error:
        if type(error).__name__ == "_DeadlockError" and not _registered:  # of importlib
            import torch

            sys.modules["torch.hpu"] = vars(torch)["hpu"] = _Later("torch.hpu")
            return
        reason = str(error) if isinstance(error, (ImportError, ValueError)) else f"{type(error).__name__}: {error}"
        sys.modules.setdefault("torch.hpu", _Absent(reason))
        if isinstance(error, beside_cuda.BesideGpuError):
            return
        try:
            warnings.warn(f"the hpu device is not available: {reason}", RuntimeWarning, stacklevel=2)
        except RuntimeWarning as warning:  # python -W error
            print(f"RuntimeWarning: {warning}", file=sys.stderr)


class _Absent(ModuleType):
    """In the place of the module torch.hpu, which PyTorch imports for the first tensor on the device."""

    def __init__(self, reason: str) -> None:
        super().__init__("torch.hpu")
        self._reason = reason

    def __getattr__(self, name: str) -> object:
        raise AttributeError(f"torch.hpu has no {name}: the hpu device is not available: {self._reason}")

    def _lazy_init(self) -> None:
        raise RuntimeError(f"the hpu device is not available: {self._reason}")


class _Later(ModuleType):
    """In the place of torch.hpu until the first use of the device, which loads it.

    A thread that imports `openhpu.x` before PyTorch holds the lock of this module while it waits for a thread that is
    in `import torch`. This one can't import `openhpu.x`, then; a moment later both can.
    """

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):  # what importlib asks
            raise AttributeError(name)
        register()
        return getattr(sys.modules["torch.hpu"], name)


def register(migrated: bool = False) -> None:
    """Load the device into PyTorch, once. Opens no device. `migrated`: with GPU migration, whatever its variable says.

    Raises SettingError for an invalid environment variable, ExtensionError when the compiled core cannot be
    loaded, BesideGpuError where a GPU is PyTorch's accelerator, MigrationBesideGpuError where scripts could mean it by
    cuda, RuntimeError when PyTorch has been asked for its accelerator already. PyTorch then works as without OpenHPU.
    """
    import torch

    if not _registering.acquire(timeout=_REGISTERING_S):
        raise RuntimeError(f"another thread has been loading the hpu device for {_REGISTERING_S:.0f} s")
    try:
        if migrated or (not _registered and _settings().get("PT_HPU_GPU_MIGRATION")):
            beside_cuda.check_migration(torch.version)
            migrated = True
        if not _registered:
            _load(torch)
        if migrated:
            from openhpu.integration.migration import installation

            installation.install()
    finally:
        _registering.release()


def _load(torch: ModuleType) -> None:
    _settings().check_environment()
    beside_cuda.check(torch.version)
    core = _load_core(torch.__version__, str(Path(str(torch.__file__)).parent))
    if core.registration_is_late():
        raise RuntimeError(_LATE)
    for part in _PARTS:
        importlib.import_module(f"openhpu.{part}")
    for library in _LINKED:
        core.connect_plugin(str(compat.libraries(torch.__version__) / library))
    core.become_accelerator()
    try:
        _add_to(torch)
    except BaseException:
        core.leave_accelerator()
        vars(torch).pop("hpu", None)
        sys.modules.pop("torch.hpu", None)
        raise


def _add_to(torch: ModuleType) -> None:
    global _registered
    from openhpu import settings
    from openhpu.device import lifecycle
    from openhpu.integration import patches
    from openhpu.interface import hpu, names

    with contextlib.suppress(settings.SettingError):  # a rank without a module may be a script's that uses none
        lifecycle.configure()  # PyTorch may open a device without asking Python
    if isinstance(sys.modules.get("torch.hpu"), _Absent | _Later):  # the missing part is there by now
        del sys.modules["torch.hpu"]
        vars(torch).pop("hpu", None)
    torch._register_device_module("hpu", hpu)
    names.alias_submodules(hpu, "torch.hpu")
    lifecycle.before_first_operator.append(_prepare_operators)
    patches.apply()
    from openhpu.observe.profiler import whole_process

    if whole_process.enabled():
        whole_process.start()  # first, so that it writes when all else has ended
    atexit.register(_settle_autograd)

    from openhpu.integration.distributed import process_group

    process_group.register()
    atexit.register(process_group.leave_after_error)
    _registered = True

    if steps := settings.get("OPENHPU_CHECK_REPLICAS"):
        from openhpu.integration.distributed import replicas

        replicas.install(steps)

    from openhpu.observe.smi import publisher

    publisher.install()
    if folder := settings.get("OPENHPU_REPORT_DATA"):
        from openhpu.compiler.client import client
        from openhpu.device import mode
        from openhpu.integration import vllm
        from openhpu.observe.insight import collector

        vllm.install()
        collector.start(folder, collector.Above(mode.name, client.settle, client.unanswered))
    if (request := settings.get("OPENHPU_PREDICT")) and (folder or whole_process.enabled()):
        from openhpu.observe import added_sections

        added_sections.start(request)


def _warn_of_late_migration() -> None:
    """Warn where PT_HPU_GPU_MIGRATION was set after the device was registered, which had read it."""
    if not _settings().get("PT_HPU_GPU_MIGRATION"):
        return
    from openhpu.integration.migration import installation

    if not installation.is_installed():
        warnings.warn(
            "PT_HPU_GPU_MIGRATION was set after `import torch`, which reads it, so names of CUDA are not translated; "
            "hpu works as always. Set it before `import torch`, or import habana_frameworks.torch.gpu_migration.",
            RuntimeWarning,
            stacklevel=3,
        )


def _prepare_operators() -> None:
    """Registrations, and functions for the core, before the first operator runs."""
    _warn_of_late_migration()
    from openhpu.integration import add_relu, fallback, histogram
    from openhpu.integration.distributed import sync_batch_norm
    from openhpu.interface import autocast_lists, custom_ops
    from openhpu.interface.gaudi_ops import affine

    for module in (autocast_lists, fallback, sync_batch_norm, histogram, add_relu, affine, custom_ops):
        module.install()


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


def _settings() -> Any:  # a module
    try:
        from openhpu import settings
    except ImportError as error:  # openhpu._machine, which is compiled
        raise ExtensionError(compat.unloadable(error) or _missing()) from error
    return settings


def _load_core(torch_version: str, folder: str):  # type: ignore[no-untyped-def]  # a compiled module
    built = compat.built()
    # Before it is loaded: a function of it that one PyTorch release calls may differ in another one.
    if built and compat.release(torch_version) not in built:
        raise ExtensionError(_misfit(torch_version, folder))
    try:
        return compat.core(torch_version)
    except ModuleNotFoundError as error:
        raise ExtensionError(_missing()) from error
    except ImportError as error:
        raise ExtensionError(compat.unloadable(error) or _misfit(torch_version, folder, str(error))) from error


def _missing() -> str:
    return compat.other_python() or _MISSING


def _misfit(torch_version: str, folder: str, reason: str = "") -> str:
    built = compat.built()
    others = [there for path in sys.path if (there := Path(path, "torch")) != Path(folder) and (there / "lib").is_dir()]
    hidden = f"; in front of {others[0]} on sys.path" if others else ""
    which = "one of these" if built[1:] else "that one"
    return (
        f"its compiled core was built with PyTorch {' and '.join(built)} and does not fit the installed PyTorch "
        f"{torch_version} ({f'{reason}; ' if reason else ''}in {folder}{hidden}). Install {which} with `pip install "
        f'"torch=={built[-1]}.*"`, or build openhpu again with `make build` or `pip install .`'
    )
