"""What each intrinsic computes, written a second time for NumPy: one function for a family, on arrays of lanes.

Values are float64 for floats and int64 for integers. A function gets the types, the switches and the operands.
"""

import math
import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from openhpu_tpc.compiling import INCLUDE
from openhpu_tpc.types import Lane

FORMATS = {"f32": (8, 23), "bf16": (8, 7), "f16": (5, 10), "h8": (5, 2), "f8": (4, 3)}
_HEADER = (INCLUDE / "tpc" / "switches.h").read_text()
SWITCHES = {name: eval(value) for name, value in re.findall(r"\b((?:SW|RMW)_\w+) = ([^,]+),", _HEADER)}
S = {name.removeprefix("SW_"): value for name, value in SWITCHES.items()}
MODES = [S["RHNE"], S["RZ"], S["RU"], S["RD"]]


class Case(NamedTuple):
    """The types of an intrinsic, and one value of its switches."""

    t: Lane
    u: Lane | None
    switches: int


def whole(value: np.ndarray, switches: int) -> np.ndarray:
    """Rounded to integers."""
    rounding = {S["RZ"]: np.trunc, S["RU"]: np.ceil, S["RD"]: np.floor}
    return rounding.get(switches & S["ROUND_MASK"], np.rint)(value)


def to_format(value: np.ndarray, lane: Lane, switches: int = 0) -> np.ndarray:
    """Rounded to the numbers of a format, whose largest exponent is infinity."""
    exponent_bits, mantissa_bits = FORMATS[lane.name]
    bias = (1 << (exponent_bits - 1)) - 1
    magnitude = np.abs(value)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        exponent = np.maximum(np.floor(np.log2(np.where(magnitude == 0, 1, magnitude))), 1 - bias)
        unit = np.exp2(exponent - mantissa_bits)
        rounded = whole(value / unit, switches) * unit
    largest = (2 - 2.0**-mantissa_bits) * 2.0**bias
    mode = switches & S["ROUND_MASK"]
    clipped = mode == S["RZ"] or bool(switches & S["CLIP_FP"])
    up = np.inf if not clipped and mode != S["RD"] else largest
    down = -np.inf if not clipped and mode != S["RU"] else -largest
    rounded = np.where(rounded > largest, up, np.where(rounded < -largest, down, rounded))
    return np.where(np.isfinite(value), rounded, value)


def limits(lane: Lane) -> tuple[int, int]:
    if lane.signed:
        return -(1 << (lane.bits - 1)), (1 << (lane.bits - 1)) - 1
    return 0, (1 << lane.bits) - 1


def wrapped(value: np.ndarray, lane: Lane) -> np.ndarray:
    low, _ = limits(lane)
    return (value - low) % (1 << lane.bits) + low


def saturated(value: np.ndarray, lane: Lane) -> np.ndarray:
    return np.clip(value, *limits(lane))


def finished(value: np.ndarray, lane: Lane, switches: int = 0) -> np.ndarray:
    """As a lane holds it: floats are computed in float32 and rounded once, integers wrap or saturate."""
    if lane.real:
        return to_format(to_format(value, _F32), lane)
    return saturated(value, lane) if switches & S["SAT"] else wrapped(value, lane)


_F32 = Lane("f32", "float", "float", 32, real=True)


def raw(value: np.ndarray, lane: Lane) -> np.ndarray:
    """The bits of lanes, as unsigned integers."""
    if not lane.real:
        return value & ((1 << lane.bits) - 1)
    exponent_bits, mantissa_bits = FORMATS[lane.name]
    bias = (1 << (exponent_bits - 1)) - 1
    magnitude = np.abs(value)
    exponent = np.maximum(np.floor(np.log2(np.where(magnitude == 0, 2.0**-200, magnitude))), 1 - bias)
    number = magnitude / np.exp2(exponent - mantissa_bits)
    normal = number >= (1 << mantissa_bits)
    bits = np.where(normal, number - (1 << mantissa_bits) + (exponent + bias) * (1 << mantissa_bits), number)
    return bits.astype(np.int64) | (np.signbit(value).astype(np.int64) << (lane.bits - 1))


def unraw(bits: np.ndarray, lane: Lane) -> np.ndarray:
    bits = bits & ((1 << lane.bits) - 1)
    if not lane.real:
        return wrapped(bits, lane)
    exponent_bits, mantissa_bits = FORMATS[lane.name]
    bias = (1 << (exponent_bits - 1)) - 1
    mantissa = bits & ((1 << mantissa_bits) - 1)
    exponent = (bits >> mantissa_bits) & ((1 << exponent_bits) - 1)
    normal = (mantissa + (1 << mantissa_bits)) * np.exp2(exponent.astype(float) - bias - mantissa_bits)
    value = np.where(exponent == 0, mantissa * 2.0 ** (1 - bias - mantissa_bits), normal)
    special = exponent == (1 << exponent_bits) - 1
    value = np.where(special, np.where(mantissa == 0, np.inf, np.nan), value)
    return np.where(bits >> (lane.bits - 1), -value, value)


def _add(c, a, b):
    return finished(a + b, c.t if c.u is None else c.u, c.switches)


def _sub(c, a, b):
    return finished(b - a if c.switches & S["NEG"] else a - b, c.t if c.u is None else c.u, c.switches)


def _abs(c, a):
    return np.abs(a) if c.t.real else saturated(np.abs(a), c.t)


def _product(c, a, b):
    return finished(a * b, c.u or c.t)


def halves_of_product(c, a, b):
    exact = [int(x) * int(y) for x, y in zip(a, b, strict=True)]
    low = np.array([value & 0xFFFFFFFF for value in exact], dtype=np.int64)
    high = np.array([(value >> 32) & 0xFFFFFFFF for value in exact], dtype=np.int64)
    return wrapped(low, c.t), wrapped(high, c.t)


def _doubled_and_rounded(c, a, b):
    exact = [(2 * int(x) * int(y) + (1 << 31)) >> 32 for x, y in zip(a, b, strict=True)]
    low, high = limits(c.t)
    return np.array([min(max(value, low), high) for value in exact], dtype=np.int64)


def _reduce_add(c, a):
    """In a tree: the upper half of the lanes is added to the lower one."""
    values = a.copy()
    while len(values) > 1:
        half = len(values) // 2
        values = finished(values[:half] + values[half:], c.t)
    return values[0] + 0 * a


def _mac(c, a, b, accumulator):
    product = -a * b if c.switches & S["NEG"] else a * b
    return finished(accumulator + product, c.u or c.t, c.switches)


def _zero_point(c, a, b, zero_point, accumulator):
    sign = -1 if c.switches & S["NEG"] else 1
    other = -sign if c.switches & S["NEG_ZP"] else sign
    return finished(accumulator + sign * a * b + other * a * zero_point, c.u, c.switches)


def _bits(operation):
    return lambda c, a, b: unraw(operation(raw(a, c.t), raw(b, c.t)), c.t)


def _shift(left):
    def shifted(c, a, b):
        bits, far = raw(a, c.t), (b < 0) | (b >= c.t.bits)
        by = np.where(far, 0, b)
        return unraw(np.where(far, 0, bits << by if left else bits >> by), c.t)

    return shifted


def _ash(c, a, b):
    def one(value, by):
        if by >= 0:
            return value << by
        half = 1 << (-by - 1) if c.switches & S["RHU"] else 0
        return (value + half) >> -by

    right = [one(int(value), int(by)) for value, by in zip(a, b, strict=True)]
    low, high = limits(c.t)
    return np.array([min(max(x, low), high) for x in right], dtype=np.int64)


def _brev(c, a):
    bits = np.array([int(f"{bits:0{c.t.bits}b}"[::-1], 2) for bits in raw(a, c.t).tolist()], dtype=np.int64)
    return bits if c.t.real else wrapped(bits, c.t)


def _popcnt(c, a):
    ones = np.array([bits.bit_count() for bits in raw(a, c.t).tolist()])
    return ones if c.switches & S["COUNT_ONES"] else c.t.bits - ones


def _find_first(c, a):
    wanted = "1" if c.switches & S["FIND_ONE"] else "0"
    found = []
    for bits in raw(a, c.t).tolist():
        text = f"{bits:0{c.t.bits}b}"
        place = (text if c.switches & S["MSB"] else text[::-1]).find(wanted)
        found.append(c.t.bits if place < 0 else place)
    return np.array(found, dtype=np.int64)


def _extract_exp(c, a):
    exponent_bits, mantissa_bits = FORMATS[c.t.name]
    biased = (raw(a, c.t) >> mantissa_bits) & ((1 << exponent_bits) - 1)
    return biased if c.switches & S["BIASED"] else biased - ((1 << (exponent_bits - 1)) - 1)


def _form(c, exponent, sign, mantissa, exponents_are_numbers=False):
    exponent_bits, mantissa_bits = FORMATS[c.t.name]
    number = exponents_are_numbers or c.switches & S["EXP_IS_NUM"]
    exponents = exponent << mantissa_bits if number else exponent
    if c.switches & S["ADD_BIAS"]:
        exponents = exponents + (((1 << (exponent_bits - 1)) - 1) << mantissa_bits)
    exponents = exponents & (((1 << exponent_bits) - 1) << mantissa_bits)
    signs = raw(sign, c.t) & 1 if c.switches & S["SIGN_LSB"] else raw(sign, c.t) >> (c.t.bits - 1)
    if c.switches & S["FORCE_SIGN0"]:
        signs = signs * 0
    if c.switches & S["FORCE_SIGN1"]:
        signs = signs * 0 + 1
    return unraw((signs << (c.t.bits - 1)) | exponents | (raw(mantissa, c.t) & ((1 << mantissa_bits) - 1)), c.t)


def converted(c, value):
    target = c.u
    if target.real:
        return to_format(value.astype(np.float64), target, c.switches)
    return saturated(whole(value, c.switches).astype(np.int64) if c.t.real else value, target)


def _shift_converted(c, value, shift):
    number = value / np.exp2(shift.astype(np.float64))
    return saturated(whole(number, c.switches).astype(np.int64), c.u)


_COMPARISONS: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "eq": np.equal,
    "neq": np.not_equal,
    "less": np.less,
    "leq": np.less_equal,
    "grt": np.greater,
    "geq": np.greater_equal,
}


def _compare(name):
    def compared(c, a, b):
        if name == "eq" and c.switches & S["MASK_EQ_ZERO"]:
            return (raw(a, c.u or c.t) & raw(b, c.u or c.t)) == 0
        return _COMPARISONS[name](a, b)

    return compared


def _select(name):
    return lambda c, a, b, x, y: np.where(_compare(name)(c, a, b), x, y)


def _select2(name):
    def selected(c, a, b, x, y):
        which = _compare(name)(c, a, b)
        return np.where(which, x, y), np.where(which, a, b)

    return selected


class Definition(NamedTuple):
    """A family's function, and the values of the switches to try."""

    function: Callable[..., np.ndarray | tuple[np.ndarray, np.ndarray]]
    switches: tuple[int, ...] = (0,)


_SATURATING = (0, S["SAT"])
_MAC = (0, S["NEG"], S["SAT"], S["SAT"] | S["NEG"])
_ZERO_POINT = (0, S["NEG"], S["NEG_ZP"], S["NEG"] | S["NEG_ZP"], S["SAT"])
_CONVERSION = tuple(MODES)

FAMILIES: dict[str, Definition] = {
    "{t}_abs": Definition(_abs),
    "{t}_add": Definition(_add, _SATURATING),
    "{t}_sub": Definition(_sub, (0, S["SAT"], S["NEG"])),
    "{t}_max": Definition(lambda c, a, b: np.maximum(a, b)),
    "{t}_min": Definition(lambda c, a, b: np.minimum(a, b)),
    "{t}_mul": Definition(_product),
    "{t}_mul_acc32": Definition(_product),
    "{t}_mul_round": Definition(_doubled_and_rounded),
    "{t}_mac": Definition(_mac, _MAC),
    "{t}_mac_acc32": Definition(_mac, _MAC),
    "{t}_mac_acc16": Definition(_mac, _MAC),
    "{t}_madd": Definition(_mac, _MAC),
    "{t}_madd_acc32": Definition(_mac, _MAC),
    "{t}_madd_acc16": Definition(_mac, _MAC),
    **{f"{{t}}_mac_zp{end}": Definition(_zero_point, _ZERO_POINT) for end in ("", "_acc16", "_acc32")},
    **{
        f"{{t}}_madd_zp{end}": Definition(lambda c, a, b, x, zp: _zero_point(c, a, b, zp, x), _ZERO_POINT)
        for end in ("", "_acc16", "_acc32")
    },
    "{t}_and": Definition(_bits(np.bitwise_and)),
    "{t}_or": Definition(_bits(np.bitwise_or)),
    "{t}_xor": Definition(_bits(np.bitwise_xor)),
    "{t}_not": Definition(lambda c, a: unraw(~raw(a, c.t), c.t)),
    "{t}_shl": Definition(_shift(True)),
    "{t}_shr": Definition(_shift(False)),
    "{t}_ash": Definition(_ash, (0, S["RHU"])),
    "{t}_brev": Definition(_brev),
    "{t}_popcnt": Definition(_popcnt, (0, S["COUNT_ONES"])),
    "{t}_find_first": Definition(_find_first, (0, S["FIND_ONE"], S["MSB"], S["FIND_ONE"] | S["MSB"])),
    "{t}_extract_exp": Definition(_extract_exp, (0, S["BIASED"])),
    "{t}_form_fp_num": Definition(
        lambda c, a, b, m: _form(c, raw(a, c.t), b, m),
        (0, S["ADD_BIAS"], S["FORCE_SIGN0"], S["FORCE_SIGN1"], S["SIGN_LSB"]),
    ),
    "{t}_form_fp_num_ie": Definition(lambda c, a, b, m: _form(c, a, b, m, True), (0, S["ADD_BIAS"])),
    "{t}_nearbyint": Definition(lambda c, a: to_format(whole(a, c.switches), c.t), tuple(MODES)),
    **{f"{{t}}_cmp_{name}": Definition(_compare(name)) for name in _COMPARISONS},
    **{f"{{t}}_sel_{name}_{{u}}": Definition(_select(name)) for name in _COMPARISONS},
    **{f"{{t}}_sel2_{name}_{{u}}": Definition(_select2(name)) for name in ("less", "leq", "grt", "geq")},
    "{t}_mov": Definition(lambda c, a: a),
    "convert_{t}_to_{u}": Definition(converted, _CONVERSION),
    "convert_{t}_to_{u}_all": Definition(converted, _CONVERSION),
    **{
        f"convert_{name}": Definition(_shift_converted, _CONVERSION)
        for name in ("int32_to_i16", "int32_to_i8", "int16_to_i8", "uint32_to_u16", "uint32_to_u8", "uint16_to_u8")
    },
    "{t}_reduce_add": Definition(_reduce_add),
    "{t}_reduce_max": Definition(lambda c, a: a.max() + 0 * a),
    "{t}_reduce_min": Definition(lambda c, a: a.min() + 0 * a),
}
FAMILIES["{t}_cmp_eq"] = Definition(_compare("eq"), (0, S["MASK_EQ_ZERO"]))
FAMILIES["{t}_sel_eq_{u}"] = Definition(_select("eq"), (0, S["MASK_EQ_ZERO"]))

_EXACT = {
    "reciprocal": lambda x: 1 / x,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "pow2": np.exp2,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "div": np.divide,
    "mod": np.fmod,
    "pow": np.power,
    "asin": np.arcsin,
    "acos": np.arccos,
    "acosh": lambda x: np.where(x < 1, np.nan, np.arccosh(np.maximum(x, 1))),
    "atanh": np.arctanh,
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
}


def special(name: str) -> Callable[..., np.ndarray] | None:
    """The function of a special function's family name, `exp_fast_{t}`."""
    return _EXACT.get(name.split("_")[0])
