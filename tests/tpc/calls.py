"""Calls of intrinsics from Python: a library with a function for each, and lanes as they lie in registers."""

import ctypes
import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np

from openhpu_tpc import compiling, intrinsics
from openhpu_tpc.intrinsics import Intrinsic
from openhpu_tpc.types import LANES, Lane
from tests.tpc import oracle
from tests.tpc.libraries import BUILT

_CHUNK = 400
# A tensor without gaps, the fastest dimension first, as tensor 0 of the calling thread; and its local memories.
_MACHINE = """#include "tpc.h"
#define EXPORT extern "C" __attribute__((visibility("default")))
thread_local tpc::Engine* tpc::engine;
thread_local unsigned char tpc::scalar_local[tpc::kScalarLocalBytes];
thread_local unsigned char tpc::vector_local[tpc::kVectorLocalBytes];
void tpc::fail(const char*, int) { __builtin_trap(); }
void tpc::print_line(const char*) {}
static thread_local tpc::Engine here;
EXPORT void set_tensor(char* data, const uint32_t* sizes, int rank, int bytes, uint32_t padding) {
  tpc::engine = &here;
  here.tensors = 1;
  tpc::Tensor& tensor = here.tensor[0];
  tensor.data = data;
  tensor.rank = rank;
  tensor.element_bytes = bytes;
  tensor.padding = padding;
  here.table = data;
  int64_t stride = 1;
  for (int d = 0; d < 5; d++) {
    tensor.size[d] = d < rank ? sizes[d] : 1;
    tensor.stride[d] = d < rank ? stride : 0;
    tensor.stride_bytes[d] = tensor.stride[d] * bytes;
    stride *= tensor.size[d];
  }
  here.table_bytes = stride * bytes;
}
EXPORT unsigned char* scalar_memory() { return tpc::scalar_local; }
EXPORT unsigned char* vector_memory() { return tpc::vector_local; }
"""


def _wrapper(number: int, it: Intrinsic) -> str:
    writer = intrinsics._Writer(it)
    family = it.family
    taken = [f"*({writer.whole(kind)}*)p[{place + 1}]" for place, (kind, _) in enumerate(family.arguments)]
    if family.tail != "-":
        at = len(taken) + 1
        taken.append(f"*(int*)p[{at}]")
        if family.tail not in ("a", "n") and family.result != "void":
            taken.append(f"*({writer.whole(family.result)}*)p[{at + 1}]")
        predicate = f"bool{writer.predicate_lanes}" if it.form == "vb" else "bool"
        taken += [f"*({predicate}*)p[{at + 2}]", f"*(bool*)p[{at + 3}]"]
    result = writer.whole(family.result)
    target = "" if result == "void" else f"*({result}*)p[0] = "
    called = f"{target}{it.name}({', '.join(taken)});"
    return f'extern "C" __attribute__((visibility("default"))) void call_{number}(void** p) {{ {called} }}\n'


def built(chosen: list[Intrinsic]) -> dict[str, "ctypes._FuncPointer"]:
    """A function for each name, which takes an array of pointers: result, arguments, switches, income, predicate."""
    return {name: function for library in libraries(chosen) for name, function in library.functions.items()}


class Calls(NamedTuple):
    """A library, and its functions by the names of intrinsics."""

    library: ctypes.CDLL
    functions: dict[str, "ctypes._FuncPointer"]


def libraries(chosen: list[Intrinsic]) -> list[Calls]:
    """Libraries with a function for each name. Some are compiled side by side."""
    chunks = [chosen[start : start + _CHUNK] for start in range(0, len(chosen), _CHUNK)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        paths = list(pool.map(_library, chunks))
    made = []
    for chunk, path in zip(chunks, paths, strict=True):
        loaded = ctypes.CDLL(str(path))
        made.append(Calls(loaded, {it.name: getattr(loaded, f"call_{number}") for number, it in enumerate(chunk)}))
    return made


def _library(chunk: list[Intrinsic]) -> Path:
    text = _MACHINE + "".join(intrinsics.definition(it) + _wrapper(number, it) for number, it in enumerate(chunk))
    headers = b"".join(path.read_bytes() for path in sorted((compiling.INCLUDE / "tpc").glob("*.h")))
    folder = BUILT / "calls" / hashlib.sha256(text.encode() + headers).hexdigest()[:20]
    target = folder / "libcalls.so"
    if not target.exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "calls.cpp").write_text(text)
        partial = folder / "partial.so"
        flags = [*compiling.FLAGS, "-march=native", "-O0", f"-I{compiling.INCLUDE}", "-shared"]
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
