"""Errors of special functions of float32 against float64: `python -m tests.tpc.test_special` writes the list."""

import ctypes
import math

import numpy as np

from openhpu_tpc import declared, intrinsics
from tests.tpc import calls, oracle
from tests.tpc.test_registers import aligned

# From and to, for the first operand; evenly spread exponents where both are above zero.
RANGES = {
    "reciprocal": (1e-30, 1e30),
    "sqrt": (1e-30, 1e30),
    "rsqrt": (1e-30, 1e30),
    "log": (1e-30, 1e30),
    "log2": (1e-30, 1e30),
    "exp": (-80.0, 80.0),
    "expm1": (-80.0, 80.0),
    "pow2": (-120.0, 120.0),
    "pow": (1e-3, 1e3),
    "div": (1e-10, 1e10),
    "mod": (1e-3, 1e3),
    "asin": (-1.0, 1.0),
    "acos": (-1.0, 1.0),
    "atanh": (-0.99, 0.99),
    "acosh": (1.0, 1e4),
    "sinh": (-80.0, 80.0),
    "cosh": (-80.0, 80.0),
}
COUNT = 64 * 128


def names():
    found = intrinsics.intrinsics()
    return [
        name
        for name, it in sorted(found.items())
        if it.family.kind == "each" and it.t and it.t.name == "f32" and oracle.special(it.family.name)
    ]


def operands(it):
    low, high = RANGES.get(it.family.name.split("_")[0], (-30.0, 30.0))
    first = np.geomspace(low, high, COUNT) if low > 0 else np.linspace(low, high, COUNT)
    second = np.linspace(0.37, 2.9, COUNT)
    return [first.astype(np.float32), second.astype(np.float32)][: len(it.family.arguments)]


def measured():
    """The largest error of each, in units of the last place."""
    chosen = [intrinsics.intrinsics()[name] for name in names()]
    functions = calls.built(chosen)
    found = {}
    for it in chosen:
        given = operands(it)
        results = []
        for start in range(0, COUNT, 64):
            parts = [aligned(bytes(256)), *(aligned(each[start : start + 64].tobytes()) for each in given)]
            functions[it.name]((ctypes.c_void_p * len(parts))(*(part.ctypes.data for part in parts)))
            results.append(np.frombuffer(parts[0].tobytes(), np.float32))
        with np.errstate(all="ignore"):
            exact = oracle.special(it.family.name)(*(each.astype(np.float64) for each in given))
            size = np.maximum(np.abs(exact), np.finfo(np.float32).tiny).astype(np.float32)
            unit = np.spacing(size).astype(np.float64)
            found[it.name] = float(np.nanmax(np.abs(np.concatenate(results) - exact) / unit))
    return found


def test_errors_are_not_larger_than_the_page_says():
    listed = declared.errors()
    assert list(listed) == names()
    larger = {name: error for name, error in measured().items() if error > float(listed[name])}
    assert not larger


if __name__ == "__main__":
    lines = [f"{name}\t{math.ceil(error * 10) / 10:.1f}\n" for name, error in measured().items()]
    comment = "# Special functions of float32: the largest error in units of the last place (tests/tpc/test_special.py)"
    declared.ERRORS.write_text(f"{comment}\nname\terror\n" + "".join(lines))
