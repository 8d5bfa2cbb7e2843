"""What intrinsics do with whole registers and with memory, written a second time for NumPy.

A family's function gives cases: the operands' bytes, the switches, and the bytes that the result or the memory has
where the predicate holds. Lanes are unsigned integers here, because nothing is computed with them.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from openhpu_tpc.intrinsics import Intrinsic
from openhpu_tpc.types import LANES, Lane
from tests.tpc import calls, oracle
from tests.tpc.oracle import S

REGISTER = 256
WIDTHS = {8: np.uint8, 16: np.uint16, 32: np.uint32}
SIZES = (100, 3)  # of the tensor that loads and stores use
PADDING = 0x3C
TENSOR_INPUTS = [(0, 0), (70, 1), (-5, 2), (60, 2), (0, 3), (7, -1)]


@dataclass
class Case:
    """One call. `memory` is what the machine's memory holds before, `changed` what it holds behind a call that runs."""

    arguments: list[bytes]
    wanted: bytes = b""
    switches: int = 0
    income: bytes | None = None
    memory: np.ndarray | None = None
    changed: np.ndarray | None = None
    kind: str = ""  # of the memory: tensor, scalars, vectors


Cases = Iterator[Case]
Generator = np.random.Generator


def number(value: int, width: int = 4) -> bytes:
    return int(value).to_bytes(width, "little", signed=value < 0)


def lanes_of(it: Intrinsic) -> Lane:
    return it.t or LANES["u8"]


def random_bytes(rng: Generator, count: int) -> np.ndarray:
    return rng.integers(0, 256, count, dtype=np.uint8)


def as_lanes(data: bytes, lane: Lane) -> np.ndarray:
    return np.frombuffer(data, WIDTHS[lane.bits]).copy()


def raw_of(values: np.ndarray, lane: Lane) -> np.ndarray:
    """The bits of numbers, among them infinities and NaNs."""
    exponent_bits, mantissa_bits = oracle.FORMATS[lane.name]
    infinity = ((1 << exponent_bits) - 1) << mantissa_bits
    raw = oracle.raw(np.where(np.isfinite(values), values, 0), lane)
    raw = np.where(np.isinf(values), infinity | (np.signbit(values).astype(np.int64) << (lane.bits - 1)), raw)
    return np.where(np.isnan(values), infinity | (1 << (mantissa_bits - 1)), raw).astype(WIDTHS[lane.bits])


# Moves of lanes. A register has four dual groups of two groups of 32 bytes.
def _masked(rng: Generator) -> tuple[int, np.ndarray]:
    mask = int(rng.integers(0, 2**32))
    return mask, np.array([(mask >> byte) & 1 for byte in range(32)], bool)


def dual_group(it: Intrinsic, rng: Generator) -> Cases:
    for switches, source, target in ((1, 0, 3), (2, 2, 1), (3, 3, 0)):
        a, income = random_bytes(rng, REGISTER), random_bytes(rng, REGISTER)
        mask, chosen = _masked(rng)
        result = income.reshape(4, 2, 32).copy()
        for group in (0, 1):
            if switches & (1 << group):
                result[target, group][chosen] = a.reshape(4, 2, 32)[source, group][chosen]
        arguments = [a.tobytes(), number(mask), number(source), number(target)]
        yield Case(arguments, result.tobytes(), switches * S["WR_LOWER_GROUP"], income.tobytes())


def dual_groups(it: Intrinsic, rng: Generator) -> Cases:
    for switches in (0b01100110, 0b11111111):
        a, income = random_bytes(rng, REGISTER), random_bytes(rng, REGISTER)
        mask, chosen = _masked(rng)
        sources = [int(each) for each in rng.integers(0, 4, 4)]
        result = income.reshape(8, 32).copy()
        for group in range(8):
            if switches & (1 << group):
                result[group][chosen] = a.reshape(8, 32)[2 * sources[group // 2] + group % 2][chosen]
        arguments = [a.tobytes(), number(mask), *map(number, sources)]
        yield Case(arguments, result.tobytes(), switches * S["WR_LOWER_GROUP0"], income.tobytes())


def groups(it: Intrinsic, rng: Generator) -> Cases:
    for enabled, dual in (((0,), (1, 2)), ((0, 1), (0, 3))):
        a, income = random_bytes(rng, REGISTER), random_bytes(rng, REGISTER)
        mask, chosen = _masked(rng)
        result = income.reshape(4, 2, 32).copy()
        switches = sum(S[f"GROUP{each}_EN"] for each in enabled) + sum(S[f"DUAL_GROUP{each}_EN"] for each in dual)
        for each in dual:
            for group in enabled:
                result[each, group][chosen] = a.reshape(4, 2, 32)[each, 1 - group][chosen]
        yield Case([a.tobytes(), number(mask)], result.tobytes(), switches, income.tobytes())


def pack(it: Intrinsic, rng: Generator) -> Cases:
    lane = lanes_of(it)
    count = 32 // (lane.bits // 8)
    for group, stride in ((0, 2), (1, 2), (0, 4), (1, 4)):
        a, income = random_bytes(rng, REGISTER).tobytes(), random_bytes(rng, REGISTER).tobytes()
        source, result = as_lanes(a, lane).reshape(4, 2, count), as_lanes(income, lane).reshape(4, 2 * count)
        kept = count // stride
        result[:, group * kept : (group + 1) * kept] = source[:, group, ::stride]
        yield Case([a], result.tobytes(), S[f"GROUP_{group}"] | S[f"STRIDE_{stride}"], income)


def unpack(it: Intrinsic, rng: Generator) -> Cases:
    lane = lanes_of(it)
    count = 32 // (lane.bits // 8)
    for group, stride, half, place in ((0, 2, 0, 0), (1, 2, 1, 1), (0, 4, 1, 3), (1, 4, 0, 2)):
        a, income = random_bytes(rng, REGISTER).tobytes(), random_bytes(rng, REGISTER).tobytes()
        source, result = as_lanes(a, lane).reshape(4, 2, count), as_lanes(income, lane).reshape(4, 2, count)
        piece = count // stride
        for target in (0, 1):
            first = half * count // 2 + target * piece
            result[:, target, place % stride :: stride] = source[:, group, (first + np.arange(piece)) % count]
        switches = S[f"GROUP_{group}"] | S[f"STRIDE_{stride}"] | S[f"GROUP_HALF_{half}"] | S[f"UNPACK_LANE_{place}"]
        yield Case([a], result.tobytes(), switches, income)


def shuffle(it: Intrinsic, rng: Generator) -> Cases:
    lane = lanes_of(it)
    width = lane.bits // 8
    a, income, b = (random_bytes(rng, REGISTER).tobytes() for _ in range(3))
    source, result = as_lanes(a, lane), as_lanes(income, lane)
    count = 32 // width
    for i in range(lane.lanes):
        direction = b[i * width]
        if direction >= 128:
            group = (direction // 32) % 2
            result[i] = source[i // (2 * count) * 2 * count + group * count + direction % 32 % count]
    yield Case([a, b], result.tobytes(), 0, income)


# Pairs of registers.
def pairs(
    operation: Callable[..., np.ndarray], switches: tuple[int, ...] = (0,)
) -> Callable[[Intrinsic, Generator], Cases]:
    def cases(it: Intrinsic, rng: Generator) -> Cases:
        assert it.t
        for chosen in switches:
            values = [calls.random_values(it.t, 128, rng) for _ in it.family.arguments]
            if it.family.arguments[0][0] == "=VT":
                values[0][64:] = values[0][:64]
            given = list(values)
            if chosen & S["NEG"]:  # a product is subtracted, and a difference is turned round
                given = [-values[0], *values[1:]] if len(values) == 3 else values[::-1]
            wanted = oracle.finished(operation(*given), it.t)
            data = [calls.packed(value, it.t) for value in values]
            if it.family.arguments[0][0] == "=VT":
                data[0] = data[0][:REGISTER]
            income = data[2] if it.family.tail == "a" else random_bytes(rng, 2 * REGISTER).tobytes()
            yield Case(data, raw_of(wanted, it.t).tobytes(), chosen, income)

    return cases


def converted_pairs(it: Intrinsic, rng: Generator) -> Cases:
    assert it.t
    registers = 2 if it.family.result == "=float128" else 4
    for mode in oracle.MODES:
        values = calls.random_values(it.t, 64 * registers, rng)
        wanted = oracle.converted(oracle.Case(it.t, LANES["f32"], mode), values)
        income = random_bytes(rng, registers * REGISTER).tobytes()
        yield Case([calls.packed(values, it.t)], raw_of(wanted, LANES["f32"]).tobytes(), mode, income)


# Predicates.
def bits(operation: Callable[..., np.ndarray]) -> Callable[[Intrinsic, Generator], Cases]:
    def cases(it: Intrinsic, rng: Generator) -> Cases:
        whole = it.form != "s"
        for _ in range(1 if whole else 4):
            values = [random_bytes(rng, 32) if whole else rng.integers(0, 2, 1, np.uint8) for _ in it.family.arguments]
            result = operation(*values) & (255 if whole else 1)
            yield Case([each.tobytes() for each in values], result.astype(np.uint8).tobytes())

    return cases


def bit_for_all(it: Intrinsic, rng: Generator) -> Cases:
    yield Case([b"\1"], b"\xff" * 32)
    yield Case([b"\0"], b"\0" * 32)


def flavor(it: Intrinsic, rng: Generator) -> Cases:
    for section in (0, 5, 8):
        value, income = random_bytes(rng, 4).tobytes(), random_bytes(rng, 32).tobytes()
        result = bytearray(income)
        for each in range(8) if section == 8 else [section]:
            result[4 * each : 4 * each + 4] = value
        yield Case([value, number(section)], bytes(result), 0, income)


# Coordinates.
def _five(rng: Generator) -> np.ndarray:
    return rng.integers(-9, 9, 5).astype(np.int32)


def coordinates(operation: Callable[..., np.ndarray]) -> Callable[[Intrinsic, Generator], Cases]:
    def cases(it: Intrinsic, rng: Generator) -> Cases:
        for mask in (0b10101, 0b11111):
            operands = [_five(rng) for kind, _ in it.family.arguments if kind == "=int5"]
            if it.name.endswith(("_shl", "_shr")):
                operands[1] = np.abs(operands[1])
            income = _five(rng)
            chosen = np.array([(mask >> i) & 1 for i in range(5)], bool)
            result = np.where(chosen, operation(*operands), income).astype(np.int32)
            arguments = [*(each.tobytes() for each in operands), number(mask)]
            yield Case(arguments, result.tobytes(), 0, income.tobytes())

    return cases


def set_coordinates(it: Intrinsic, rng: Generator) -> Cases:
    before, result = _five(rng), None
    result = before.copy()
    result[[1, 3]] = 77
    yield Case([number(77), before.tobytes(), number(0b01010)], result.tobytes(), 0, before.tobytes())


def permuted(it: Intrinsic, rng: Generator) -> Cases:
    before = _five(rng)
    order = [3, 0, 4, 1, 2]
    kind = sum(source << (3 * place) for place, source in enumerate(order))
    yield Case([before.tobytes(), number(kind)], before[order].tobytes())


def one_coordinate(it: Intrinsic, rng: Generator) -> Cases:
    for place in range(5):
        before = _five(rng)
        yield Case([before.tobytes(), number(place)], before[place : place + 1].tobytes())


# Tensors: lane i of the register belongs to the element i behind the coordinates.
def _tensor(it: Intrinsic, rng: Generator) -> np.ndarray:
    lane = lanes_of(it)
    return random_bytes(rng, SIZES[0] * SIZES[1] * lane.bits // 8).view(WIDTHS[lane.bits]).reshape(SIZES[1], SIZES[0])


def _at(place: tuple[int, int]) -> bytes:
    return np.array([*place, 0, 0, 0], np.int32).tobytes()


def _range(it: Intrinsic) -> Iterator[tuple[int, int, list[bytes]]]:
    """First lane, number of lanes, and the operands that say so."""
    lanes = lanes_of(it).lanes
    if "_partial" in it.name:
        for size, offset in ((0, 0), (4, 9), (lanes - 1, 0)):
            yield offset, size + 1, [number(size), number(offset)]
    elif "_low" in it.name or "_high" in it.name:
        yield (lanes // 2 if "_high" in it.name else 0), lanes // 2, []
    else:
        yield 0, lanes, []


def load(it: Intrinsic, rng: Generator) -> Cases:
    lane = lanes_of(it)
    for place in TENSOR_INPUTS:
        for first, count, sizes in _range(it):
            tensor = _tensor(it, rng)
            income = random_bytes(rng, REGISTER).tobytes()
            result = as_lanes(income, lane)
            for i in range(count):
                inside = 0 <= place[0] + i < SIZES[0] and 0 <= place[1] < SIZES[1]
                outside = int.from_bytes(bytes([PADDING]) * (lane.bits // 8), "little")
                result[first + i] = tensor[place[1], place[0] + i] if inside else outside
            arguments = [_at(place), number(0), *sizes]
            yield Case(arguments, result.tobytes(), 0, income, tensor, tensor.copy(), "tensor")


def store(it: Intrinsic, rng: Generator) -> Cases:
    lane = lanes_of(it)
    for place in TENSOR_INPUTS:
        for first, count, sizes in _range(it):
            tensor = _tensor(it, rng)
            value = random_bytes(rng, REGISTER).tobytes()
            changed = tensor.copy()
            for i in range(count):
                if 0 <= place[0] + i < SIZES[0] and 0 <= place[1] < SIZES[1]:
                    changed[place[1], place[0] + i] = as_lanes(value, lane)[first + i]
            yield Case([_at(place), number(0), value, *sizes], b"", 0, None, tensor, changed, "tensor")


def load_of_address(it: Intrinsic, rng: Generator) -> Cases:
    """The address of the memory's third element is an operand; `test_registers` fills it in."""
    width = 1 if it.t is None else it.t.bits // 8
    memory = random_bytes(rng, 64)
    element = memory[2 * width : 3 * width].tobytes() if it.t else bytes([memory[2] & 1])
    wanted = element if it.form == "s" else element * (REGISTER // width)
    yield Case([b"address %d" % (2 * width)], wanted, 0, None, memory, memory.copy(), "addresses")


def address(it: Intrinsic, rng: Generator) -> Cases:
    tensor = random_bytes(rng, SIZES[0] * SIZES[1] * 4).view(np.uint32).reshape(SIZES[1], SIZES[0])
    for place in ((0, 0), (99, 2), (3, 1)):
        wanted = b"address %d" % (4 * (place[0] + SIZES[0] * place[1]))
        yield Case([_at(place), number(0)], wanted, 0, None, tensor, tensor.copy(), "tensor")


def look_up(it: Intrinsic, rng: Generator) -> Cases:
    lane = lanes_of(it)
    width, parts = lane.bits // 8, 2 if it.family.result == "=V2" else 1
    tensor = _tensor(it, rng)
    entries = tensor.ravel().view(np.uint8).reshape(-1, parts, width)
    index = rng.integers(0, min(len(entries), 256), lane.lanes).astype(WIDTHS[lane.bits])
    wanted = entries[index].transpose(1, 0, 2).tobytes()
    yield Case([index.tobytes(), number(0)], wanted, S["LUT_PTR"], None, tensor, tensor.copy(), "tensor")


# Local memory by addresses.
def _local(it: Intrinsic) -> tuple[str, int]:
    """Which memory, and the bytes of a value."""
    if it.form == "s":
        return "scalars", 1 if it.t is None else it.t.bits // 8
    return "vectors", 32 if "_i1_" in it.name else REGISTER


def _part(it: Intrinsic, size: int) -> slice:
    if it.name.endswith(("_low", "_low_b", "_low_vb")):
        return slice(0, size // 2)
    if it.name.endswith(("_high", "_high_b", "_high_vb")):
        return slice(size // 2, size)
    return slice(0, size)


def load_local(it: Intrinsic, rng: Generator) -> Cases:
    kind, size = _local(it)
    memory = random_bytes(rng, 1024)
    for address in (0, 4, 1024 - size):
        income = random_bytes(rng, size)
        result = income.copy()
        part = _part(it, size)
        result[part] = memory[address : address + part.stop - part.start]
        if it.name == "s_i1_ld_l":
            income, result = income & 1, result & 1
        yield Case([number(address)], result.tobytes(), 0, income.tobytes(), memory, memory.copy(), kind)


def store_local(it: Intrinsic, rng: Generator) -> Cases:
    kind, size = _local(it)
    memory, value = random_bytes(rng, 1024), random_bytes(rng, size)
    if it.name == "s_i1_st_l":
        value = value & 1
    for address in (0, 4, 1024 - size):
        changed = memory.copy()
        part = _part(it, size)
        changed[address : address + part.stop - part.start] = value[part]
        yield Case([number(address), value.tobytes()], b"", 0, None, memory, changed, kind)


def nothing(it: Intrinsic, rng: Generator) -> Cases:
    yield Case([number(0, 8) for _ in it.family.arguments])


# Numbers in classes.
def _class_of(raw: int, lane: Lane) -> int:
    value = float(oracle.unraw(np.array([raw]), lane)[0])
    mantissa_bits = oracle.FORMATS[lane.name][1]
    exponent = (raw >> mantissa_bits) & ((1 << oracle.FORMATS[lane.name][0]) - 1)
    negative = raw >> (lane.bits - 1)
    if np.isnan(value):
        return 7 if lane.bits == 8 else 8 + ((raw >> (mantissa_bits - 1)) & 1)
    kind = 3 if np.isinf(value) else 2 if exponent else 1 if value else 0
    if lane.bits == 8:
        return 3 - kind if negative else 3 + kind
    return 3 - kind if negative else 4 + kind


def classes(it: Intrinsic, rng: Generator) -> Cases:
    lane = lanes_of(it)
    exponent_bits, mantissa_bits = oracle.FORMATS[lane.name]
    most = ((1 << exponent_bits) - 1) << mantissa_bits
    sign = 1 << (lane.bits - 1)
    known = [0, sign, 1, sign | 1, most, sign | most, most | 1, most | (1 << (mantissa_bits - 1)), 3 << mantissa_bits]
    count = 1 if it.form == "s" else lane.lanes
    for start in range(9 if it.form == "s" else 1):
        raw = [known[(start + i) % 9] if i < 9 else int(rng.integers(0, 1 << lane.bits)) for i in range(count)]
        dtype = WIDTHS[lane.bits]
        wanted = np.array([1 << _class_of(each, lane) for each in raw], dtype)
        yield Case([np.array(raw, dtype).tobytes()], wanted.tobytes())


_NAN, _INF = float("nan"), float("inf")
# For the ten classes; None where the function is computed otherwise.
_SPECIAL: dict[str, list[float | None]] = {
    "RECIP": [-0.0, None, -_INF, -_INF, _INF, _INF, None, 0.0, _NAN, _NAN],
    "RSQRT": [_NAN, _NAN, -_INF, -_INF, _INF, _INF, None, 0.0, _NAN, _NAN],
    "SQRT": [_NAN, _NAN, -0.0, -0.0, 0.0, 0.0, None, _INF, _NAN, _NAN],
    "LOG": [_NAN, _NAN, -_INF, -_INF, -_INF, -_INF, None, _INF, _NAN, _NAN],
    "EXP": [0.0, None, 1.0, 1.0, 1.0, 1.0, None, _INF, _NAN, _NAN],
    "TANH": [-1.0, None, -0.0, -0.0, 0.0, 0.0, None, 1.0, _NAN, _NAN],
}
_FOR_CLASS = [-_INF, -1.0, -0.0, -0.0, 0.0, 0.0, 1.0, _INF, _NAN, _NAN]


def _of_two(function: str, x: int, y: int) -> float | None:
    ordinary = x in (1, 6) and (y in (1, 6) or (function == "POW" and y in (0, 7)))
    if ordinary:
        return None
    with np.errstate(all="ignore"):
        a, b = np.float32(_FOR_CLASS[x]), np.float32(_FOR_CLASS[y])
        return float(a / b if function == "DIV" else np.power(np.abs(a), b))


def special_values(it: Intrinsic, rng: Generator) -> Cases:
    lane = lanes_of(it)
    count = 1 if it.form == "s" else lane.lanes
    dtype = WIDTHS[lane.bits]
    functions = [*_SPECIAL, "DIV", "POW"]
    for function in functions:
        for start in range(0, 100, count if count > 1 else 7):
            pairs = [divmod((start + i) % 100, 10) for i in range(count)]
            operands = [np.array([1 << pair[which] for pair in pairs], dtype) for which in (0, 1)]
            income = raw_of(np.full(count, 2.5), lane)
            found = [_SPECIAL[function][x] if function in _SPECIAL else _of_two(function, x, y) for x, y in pairs]
            values = np.array([2.5 if each is None else each for each in found])
            wanted = raw_of(values, lane)
            yield Case([each.tobytes() for each in operands], wanted.tobytes(), S[function], income.tobytes())


# Conversions of containers: lanes are dealt out in turn, or stay in order.
def containers(it: Intrinsic, rng: Generator) -> Cases:
    assert it.t and it.u
    for switches in (*oracle.MODES, S["LINEAR"]):
        values = calls.random_values(it.t, it.lanes, rng)
        wanted = oracle.converted(oracle.Case(it.t, it.u, switches), values)
        linear = bool(switches & S["LINEAR"])
        data = calls.packed(values, it.t) if linear else calls.dealt(values, it.t)
        bits = raw_of(wanted, it.u) if it.u.real else wanted.astype(WIDTHS[it.u.bits])
        registers = 1 if linear else it.lanes // it.u.lanes
        result = b"".join(bits[register::registers].tobytes() for register in range(registers))
        yield Case([data, number(switches)], result)


def single(it: Intrinsic, rng: Generator) -> Cases:
    assert it.t and it.u
    for mode in oracle.MODES:
        values = calls.random_values(it.t, it.t.lanes, rng)
        income = random_bytes(rng, REGISTER).tobytes()
        result = as_lanes(income, it.u)
        result[::2] = raw_of(oracle.converted(oracle.Case(it.t, it.u, mode), values), it.u)
        yield Case([calls.packed(values, it.t)], result.tobytes(), mode, income)


def _shifted(left: bool) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    def shifted(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        whole = a.view(np.uint32).astype(np.uint64)
        moved = whole << b.astype(np.uint64) if left else whole >> b.astype(np.uint64)
        return (moved & 0xFFFFFFFF).astype(np.uint32).view(np.int32)

    return shifted


FAMILIES: dict[str, Callable[[Intrinsic, Generator], Cases]] = {
    "{t}_mov_dual_group": dual_group,
    "{t}_mov_dual_group_all": dual_groups,
    "{t}_mov_group": groups,
    "{t}_pack": pack,
    "{t}_unpack": unpack,
    "{t}_shuffle": shuffle,
    "i1_and": bits(np.bitwise_and),
    "i1_or": bits(np.bitwise_or),
    "i1_xor": bits(np.bitwise_xor),
    "i1_not": bits(np.bitwise_not),
    "i1_mov": bits(lambda a: a),
    "i1_mov_i1": bit_for_all,
    "i1_mov_flavor": flavor,
    "i32_abs": coordinates(np.abs),
    "i32_add": coordinates(np.add),
    "i32_sub": coordinates(np.subtract),
    "i32_mul": coordinates(np.multiply),
    "i32_max": coordinates(np.maximum),
    "i32_min": coordinates(np.minimum),
    "i32_and": coordinates(np.bitwise_and),
    "i32_or": coordinates(np.bitwise_or),
    "i32_xor": coordinates(np.bitwise_xor),
    "i32_not": coordinates(np.bitwise_not),
    "i32_mov": coordinates(lambda a: a),
    "i32_shl": coordinates(_shifted(True)),
    "i32_shr": coordinates(_shifted(False)),
    "set_indx": set_coordinates,
    "prmt_indx": permuted,
    "mov_irf_dim": one_coordinate,
    **{f"{{t}}_ld_tnsr{end}": load for end in ("", "_partial", "_low", "_high")},
    **{f"{{t}}_st_tnsr{end}": store for end in ("", "_partial", "_low", "_high")},
    "gen_addr": address,
    **{f"{{t}}_lookup{end}": look_up for end in ("", "_1c", "_c0", "_2c", "_c1c2")},
    "{t}_ld_g": load_of_address,
    "i1_ld_g": load_of_address,
    **{f"{kind}_ld_l{end}": load_local for kind in ("{t}", "i1") for end in ("", "_v", "_v_low", "_v_high")},
    **{f"{kind}_st_l{end}": store_local for kind in ("{t}", "i1") for end in ("", "_v", "_v_low", "_v_high")},
    **dict.fromkeys(("aso", "cache_flush", "cache_invalidate", "prefetch"), nothing),
    "{t}_add_x2": pairs(np.add),
    "{t}_sub_x2": pairs(np.subtract, (0, S["NEG"])),
    **dict.fromkeys(("{t}_mul_x2", "{t}_mul_x2_svv"), pairs(np.multiply)),
    **dict.fromkeys(("{t}_mac_x2", "{t}_mac_x2_svv", "{t}_madd_x2"), pairs(lambda a, b, c: a * b + c, (0, S["NEG"]))),
    **{f"convert_{kind}_to_f32_{count}": converted_pairs for kind in ("i32", "u32") for count in ("x2", "x4")},
    "{t}_fclass": classes,
    "{t}_calc_fp_special": special_values,
    "convert_{vt}_to_{vu}": containers,
    "convert_{t}_to_{u}_single": single,
}
