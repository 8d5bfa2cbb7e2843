"""Calls of intrinsics from Python: a library with a function for each, and lanes as they lie in registers."""

import ctypes
import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from openhpu_tpc import compiling, intrinsics
from openhpu_tpc.intrinsics import Intrinsic
from openhpu_tpc.types import LANES, Lane
from tests.tpc import oracle
from tests.tpc.libraries import BUILT

_CHUNK = 160


def _wrapper(number: int, it: Intrinsic) -> str:
    writer = intrinsics._Writer(it)
    family = it.family
    taken = [f"*({writer.whole(kind)}*)p[{place + 1}]" for place, (kind, _) in enumerate(family.arguments)]
    if family.tail != "-":
        at = len(taken) + 1
        taken.append(f"*(int*)p[{at}]")
        if family.tail != "a":
            taken.append(f"*({writer.whole(family.result)}*)p[{at + 1}]")
        predicate = f"bool{writer.predicate_lanes}" if it.form == "vb" else "bool"
        taken += [f"*({predicate}*)p[{at + 2}]", f"*(bool*)p[{at + 3}]"]
    result = writer.whole(family.result)
    called = f"*({result}*)p[0] = {it.name}({', '.join(taken)});"
    return f'extern "C" __attribute__((visibility("default"))) void call_{number}(void** p) {{ {called} }}\n'


def built(chosen: list[Intrinsic]) -> dict[str, "ctypes._FuncPointer"]:
    """A function for each name, which takes an array of pointers: result, arguments, switches, income, predicate."""
    chunks = [chosen[start : start + _CHUNK] for start in range(0, len(chosen), _CHUNK)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        libraries = list(pool.map(_library, chunks))
    functions = {}
    for chunk, library in zip(chunks, libraries, strict=True):
        loaded = ctypes.CDLL(str(library))
        functions |= {it.name: getattr(loaded, f"call_{number}") for number, it in enumerate(chunk)}
    return functions


def _library(chunk: list[Intrinsic]) -> Path:
    text = '#include "tpc.h"\nthread_local tpc::Engine* tpc::engine;\n'
    text += "void tpc::fail(const char*, int) { __builtin_trap(); }\n"
    text += "".join(intrinsics.definition(it) + _wrapper(number, it) for number, it in enumerate(chunk))
    headers = b"".join(path.read_bytes() for path in sorted((compiling.INCLUDE / "tpc").glob("*.h")))
    folder = BUILT / "calls" / hashlib.sha256(text.encode() + headers).hexdigest()[:20]
    target = folder / "libcalls.so"
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "calls.cpp").write_text(text)
        partial = folder / "partial.so"
        flags = [*compiling.FLAGS, "-march=native", "-O1", f"-I{compiling.INCLUDE}", "-shared"]
        compiling.run(["g++", *flags, str(folder / "calls.cpp"), "-o", str(partial), "-lm"], "calls")
        partial.rename(target)
    return target


def packed(values: np.ndarray, lane: Lane) -> bytes:
    """The bytes of lanes."""
    dtype = {32: np.uint32, 16: np.uint16, 8: np.uint8}[lane.bits]
    return oracle.raw(values, lane).astype(dtype).tobytes()


def unpacked(data: bytes, lane: Lane) -> np.ndarray:
    """The values of lanes."""
    dtype = {32: np.uint32, 16: np.uint16, 8: np.uint8}[lane.bits]
    return oracle.unraw(np.frombuffer(data, dtype=dtype).astype(np.int64), lane)


def dealt(values: np.ndarray, lane: Lane) -> bytes:
    """The bytes of registers to which lanes are dealt out in turn."""
    registers = max(1, len(values) // lane.lanes)
    return b"".join(packed(values[register::registers], lane) for register in range(registers))


def collected(data: bytes, lane: Lane, lanes: int) -> np.ndarray:
    """The other way round."""
    registers = max(1, lanes // lane.lanes)
    result = np.empty(lanes, dtype=np.float64 if lane.real else np.int64)
    for register in range(registers):
        result[register::registers] = unpacked(data[256 * register : 256 * (register + 1)], lane)
    return result


def random_values(lane: Lane, lanes: int, generator: np.random.Generator, small: bool = False) -> np.ndarray:
    """Values of a type: floats with fractions and halves, integers up to the limits."""
    if lane.real:
        chosen = generator.choice([0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 3.0, -7.25, 0.1875, 12.0, -15.5, 1.0, 14.75], lanes)
        return oracle.to_format(chosen if small else chosen * generator.choice([1, 1, 0.25], lanes), lane)
    low, high = oracle.limits(lane)
    wide = generator.integers(low, high, lanes, endpoint=True)
    near = np.clip(generator.integers(-9, 10, lanes), low, high)
    edges = generator.choice([low, high], lanes)
    pick = generator.integers(0, 4, lanes)
    return near if small else np.where(pick == 0, edges, np.where(pick == 1, near, wide))


LANE_NAMES = list(LANES)
