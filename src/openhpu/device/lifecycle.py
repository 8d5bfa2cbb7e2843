"""From loaded to open: configuring the core from the environment and opening the first device.

The first memory or work opens a device. The core opens it, and calls `_prepare_to_open` before and
`_first_device_opened` after that. A question (`ask`) opens none: programs that use no hpu ask, too, through PyTorch.
"""

import contextlib
import functools
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

# Functions of higher floors, called once, before the first device is opened.
before_first_operator: list[Callable[[], None]] = []
_lock = threading.RLock()
# A child of a process that prepares on another thread must find it free.
os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)
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
            _C.configure(**{name: value for name, value in setup._asdict().items() if name != "device_count"})
            _setup = setup
        _configured_from = environment
        return _setup


def _lazy_init() -> None:
    """PyTorch calls this before it makes an hpu tensor, and before it answers a question about streams or devices.

    It opens nothing, since it can't know which of the two follows: the core opens a device for the tensor. With
    OPENHPU_STRICT=gaudi a question opens it, too. Raises RuntimeError in a child of a process that had opened a device.
    """
    ask()


def ask() -> None:
    """Before the answer to a question: the devices are configured, and none is opened, except with
    OPENHPU_STRICT=gaudi.

    Raises RuntimeError in a child of a process that had opened a device.
    """
    if _C.is_initialized():
        return
    if _C.is_in_bad_fork():
        raise RuntimeError(_BAD_FORK)
    configure_if_possible()
    if differences.as_gaudi("question"):
        _C.init()


def configure_if_possible() -> None:
    """As `configure`, without its error: a process for which there is no module may ask, and may not open a device."""
    with contextlib.suppress(settings.SettingError):
        configure()


def _prepare_to_open() -> None:
    """The core calls this before it opens a device, on the thread that does."""
    global _prepared
    if _C.is_initialized():
        return
    with _lock:
        # Only the first to prepare does so: while another thread does, this one's caller may open the device.
        configure(again=not _prepared)
        if _prepared:
            return
        _prepared = True  # what follows may open the device
        try:
            _untraced(_prepare)
        except BaseException:
            _prepared = False
            raise


def _first_device_opened(index: int) -> None:
    """The core calls this after it has opened the first device of this process, on the thread that did."""
    _untraced(functools.partial(_tell, index))


def _tell(index: int) -> None:
    client.ahead()
    events.publish("device_acquired", {"device": index})
    imported = "habana_frameworks.torch" in sys.modules or settings.get("PT_HPU_AUTOLOAD") == "1"
    if mode.is_lazy() and not imported:
        differences.note("autoload")


def _untraced(function: Callable[[], None]) -> None:
    """Call it. The core may be in the middle of a function that torch.compile has compiled, and Dynamo would compile
    what is called there."""
    if "torch._dynamo" in sys.modules:
        function = torch.compiler.disable(function)
    function()


def prepare() -> None:
    """Set-up before the first operator runs, for what needs the mode and opens a device only later."""
    if _C.is_in_bad_fork():
        raise RuntimeError(_BAD_FORK)
    _prepare_to_open()


def _prepare() -> None:
    mode.fix()
    _C.set_num_threads(torch.get_num_threads())
    _C.set_lenient_indices(settings.get("OPENHPU_OUT_OF_RANGE") == "gaudi")
    product_rule.choose()
    settings.follow("PT_COMPILE_ONLY_MODE", _C.set_compile_only)
    _follow_gaudis_numbers()
    for prepare in before_first_operator:
        prepare()
    if settings.get("PT_HPU_EAGER_ENABLE_GRADIENT_VIEW_LAYOUT_OPT") and not mode.is_lazy():
        torch.autograd.enforce_grad_layout_policy(False)


def _follow_gaudis_numbers() -> None:
    """Which numbers the device keeps, and which copies to it are refused or reported; see docs/differences.md."""
    strict = differences.as_gaudi("int64-arithmetic")
    wide = "PT_ENABLE_INT64_SUPPORT"
    first = settings.get("OPENHPU_GENERATION") == "gaudi"
    keeps = settings.get(wide) if settings.is_set(wide) else not mode.is_lazy() and not first
    exact = settings.get("OPENHPU_INT64") == "exact" if settings.is_set("OPENHPU_INT64") else keeps or not strict
    _C.set_narrow_int64(not exact)
    permitted = {
        "int64-range": keeps or (strict and exact) or None,
        "float64-range": None,
        "e4m3-range": settings.get("OPENHPU_GENERATION") != "gaudi2" or None,
    }
    for kind, is_permitted in permitted.items():
        _C.set_level(kind, differences.level(kind, is_permitted))


def init() -> None:
    """Open the current device. Not needed: the first memory or work does it."""
    if _C.is_in_bad_fork():
        raise RuntimeError(_BAD_FORK)
    _C.init()


def is_initialized() -> bool:
    """Whether a device is open in this process."""
    return _C.is_initialized() and not _C.is_in_bad_fork()


def _is_in_bad_fork() -> bool:
    """Whether this process was forked from one that had opened a device."""
    return _C.is_in_bad_fork()
