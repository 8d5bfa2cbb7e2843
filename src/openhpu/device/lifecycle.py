"""From loaded to open: configuring the core from the environment and opening the first device."""

import dataclasses
import os
import sys
import threading
from collections.abc import Callable

import torch

from openhpu import _C, settings
from openhpu.compiler.client import client
from openhpu.device import mode, product_rule
from openhpu.observe import differences, events

# The core is configured again when one of them changed before a device was opened.
_DEVICE_VARIABLES = tuple(row.name for row in settings.ROWS if row.when == "first use of a device")

# Functions of higher floors, called once.
before_first_operator: list[Callable[[], None]] = []
_lock = threading.RLock()
_prepared = False
_configured_from: tuple[str | None, ...] | None = None
_setup: settings.DeviceSetup | None = None

_BAD_FORK = (
    "cannot use an hpu device in a forked process: its parent had opened the device before the fork, and the "
    "device's worker thread does not exist here. Start processes with the 'spawn' or 'forkserver' method "
    "(torch.multiprocessing.set_start_method), or fork before the first use of hpu."
)


def configure(again: bool = False) -> settings.DeviceSetup:
    """Hand the environment's devices to the core, and return the current ones. Changes nothing once a device is open.

    `again`: also where the environment has not changed, since the machine's memory may have.

    Raises SettingError.
    """
    global _configured_from, _setup
    if _setup is not None and _C.is_initialized():
        return _setup
    environment = tuple(map(os.environ.get, _DEVICE_VARIABLES))
    if _setup is not None and environment == _configured_from and not again:
        return _setup
    with _lock:
        if _setup is None or not (_C.is_initialized() or _C.is_in_bad_fork()):
            setup = settings.device_setup()
            _C.configure(**{name: value for name, value in dataclasses.asdict(setup).items() if name != "count"})
            _setup = setup
        _configured_from = environment
        return _setup


def _lazy_init() -> None:
    """Open the current device, if none is open. PyTorch calls this before it makes an hpu tensor."""
    global _prepared
    if _prepared and _C.is_initialized():
        return
    if _C.is_in_bad_fork():
        raise RuntimeError(_BAD_FORK)
    with _lock:
        if not _prepared:
            _prepare()
            _prepared = True
        if not _C.is_initialized():
            _C.init()
            client.ahead()
            events.publish("device_acquired", {"device": _C.current_device()})
            imported = "habana_frameworks.torch" in sys.modules or settings.get("PT_HPU_AUTOLOAD") == "1"
            if mode.is_lazy() and not imported:
                differences.note("autoload")


def _prepare() -> None:
    """Set-up before the first operator runs."""
    mode.fix()
    configure(again=True)
    _C.set_num_threads(torch.get_num_threads())
    _C.set_lenient_indices(settings.get("OPENHPU_OUT_OF_RANGE") == "gaudi")
    product_rule.choose()
    _follow_gaudis_numbers()
    for prepare in before_first_operator:
        prepare()
    if settings.get("PT_HPU_EAGER_ENABLE_GRADIENT_VIEW_LAYOUT_OPT") and not mode.is_lazy():
        torch.autograd.enforce_grad_layout_policy(False)


def _follow_gaudis_numbers() -> None:
    """Which numbers the device keeps, and which copies to it are refused or noted; see docs/differences.md."""
    strict = settings.is_strict()
    wide = "PT_ENABLE_INT64_SUPPORT"
    first = settings.get("OPENHPU_GENERATION") == "gaudi"
    keeps = settings.get(wide) if settings.is_set(wide) else not mode.is_lazy() and not first
    exact = settings.get("OPENHPU_INT64") == "exact" if settings.is_set("OPENHPU_INT64") else keeps or not strict
    _C.set_narrow_int64(not exact)
    if settings.get("OPENHPU_GENERATION") != "gaudi2":
        _C.set_e4m3(_C.E4m3.PYTORCH)
    else:
        _C.set_e4m3(_C.E4m3.GAUDI2 if strict else _C.E4m3.NOTE)
    wider = _C.OutOfRangeCopies.REFUSE if strict else _C.OutOfRangeCopies.NOTE
    kept = keeps or (strict and exact)
    _C.set_out_of_range_copies(integers=_C.OutOfRangeCopies.PASS if kept else wider, floats=wider)


def init() -> None:
    """Open the current device. Not needed: the first use does it."""
    _lazy_init()


def is_initialized() -> bool:
    """Whether a device is open in this process."""
    return _C.is_initialized() and not _C.is_in_bad_fork()


def _is_in_bad_fork() -> bool:
    """Whether this process was forked from one that had opened a device."""
    return _C.is_in_bad_fork()
