"""Which library computes matrix products of float32: the rule of csrc/run/Products, and its calibration.

`openhpu calibrate` measures from how many multiplications on oneDNN is faster than MKL, and writes that to a file. A
later process reads it before its first product. So the choice never changes within a process.
"""

import contextlib
import json
import time
from collections.abc import Iterable
from pathlib import Path

import torch
from torch import Tensor

from openhpu import _C, settings
from openhpu.settings import folders

NEVER = 2**63 - 1
KINDS = ("skinny", "single", "batch")
# Sizes of increasing numbers of multiplications, of each kind.
_SHAPES: dict[str, tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]] = {
    "skinny": tuple(((8, n), (n, n)) for n in (128, 256, 512, 1024, 2048)),
    "single": tuple(((n, n), (n, n)) for n in (64, 96, 128, 160, 224, 320)),
    "batch": tuple(((16, n, 64), (16, 64, n)) for n in (32, 64, 96, 128, 192)),
}
_TURNS = 5
_TURN_S = 0.002
_GAIN = 1.03  # what oneDNN has to gain


def file() -> Path:
    """The file of the calibration."""
    return folders.user_cache() / "products.json"


def choose() -> None:
    """Set the rule up, before the first product: OPENHPU_PRODUCTS, and a calibration of this machine if there is one.

    A file of another processor, of another PyTorch, or one that can't be read is passed over.
    """
    _C.set_product_rule(settings.get("OPENHPU_PRODUCTS"))
    with contextlib.suppress(OSError, ValueError, TypeError, LookupError):
        kept = folders.read_object(file())
        bounds = [kept["from"][kind] for kind in KINDS]
        if kept["made for"] == _machine() and all(type(bound) is int and 0 < bound <= NEVER for bound in bounds):
            _C.set_product_bounds(*bounds)


def calibrate() -> dict[str, int]:
    """Measure the bounds of this machine, in less than a second, and write them to `file()` for later processes.

    Returns the least number of multiplications of oneDNN's products by kind; `NEVER`: MKL is faster. Raises
    RuntimeError if oneDNN can't compute products on this processor, OSError if the file can't be written.
    """
    if not _C.has_onednn_products():
        raise RuntimeError("oneDNN computes products of float32 only on processors with AVX-512: MKL stays in use")
    torch.zeros((), device="hpu")  # the rule is set up
    try:
        bounds = {kind: _bound(kind) for kind in KINDS}
    finally:
        _C.set_product_rule(settings.get("OPENHPU_PRODUCTS"))
    with folders.replacing(file()) as made:
        json.dump({"made for": _machine(), "from": bounds}, made)
    return bounds


def _machine() -> str:
    from openhpu.compiler.client.identity import vector_isa  # imports a part of the compiler

    return f"{vector_isa()} {torch.__version__} {torch.get_num_threads()}"


def _bound(kind: str) -> int:
    """The multiplications from which on oneDNN is faster in each shape."""
    bound = NEVER
    for sizes in reversed(_SHAPES[kind]):
        a, b = (torch.full(size, 0.5, device="hpu") for size in sizes)
        if _seconds("mkl", a, b) < _GAIN * _seconds("onednn", a, b):
            break
        bound = a.numel() * b.shape[-1]
    return bound


def _seconds(rule: str, a: Tensor, b: Tensor) -> float:
    """The time of a product by this library, the least of some turns."""
    _C.set_product_rule(rule)

    def turn(calls: int) -> float:
        begin = time.perf_counter()
        for _ in range(calls):
            torch.matmul(a, b)
        torch.hpu.synchronize()  # type: ignore[attr-defined]
        return (time.perf_counter() - begin) / calls

    calls = max(1, int(_TURN_S / min(turn(1) for _ in range(3))))
    return min(turn(calls) for _ in range(_TURNS))


def described(bounds: dict[str, int]) -> Iterable[str]:
    """A line for each kind of product."""
    names = {"skinny": "products of fewer than 16 rows or columns", "single": "other products", "batch": "batches"}
    for kind, bound in bounds.items():
        yield f"{names[kind]}: {'MKL' if bound == NEVER else f'oneDNN from {bound} multiplications on'}"
