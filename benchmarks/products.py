"""products: matrix products of float32 by each library, in GFLOP/s, and which one the device chooses.

The same call runs on the device with each value of OPENHPU_PRODUCTS, and on the CPU device. The machine's limit is what
a loop of fused multiply-adds reaches on as many threads.
"""

import functools
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from ctypes import CDLL, c_double
from pathlib import Path

import torch
from torch import Tensor

from benchmarks.report import Table
from benchmarks.timing import Peer, Spread, in_turns
from openhpu import _C

RULES = ("mkl", "onednn", "auto")
SHAPES = (  # rows, inner, columns
    (32, 64, 128), (64, 64, 64), (64, 128, 128), (128, 128, 128), (128, 128, 512), (256, 256, 256), (512, 128, 512),
    (512, 512, 512), (512, 768, 768), (512, 512, 2048), (512, 2048, 512), (256, 1024, 1024), (1024, 1024, 1024),
    (2048, 2048, 2048), (1, 1024, 1024), (4, 1024, 1024), (8, 1024, 1024), (16, 1024, 1024), (64, 64, 4096),
    (4096, 64, 64), (8, 4096, 8),
)  # fmt: skip
BATCHES = ((32, 64, 64, 64), (32, 128, 64, 128), (32, 128, 128, 64), (8, 512, 64, 512), (96, 65, 64, 65))
LAYOUTS = ("a @ b", "a @ b.T", "a.T @ b")
_CALLS_S = 0.02  # of a turn

# Ten sums of 16 floats are enough to hide the latency of a multiply-add.
_LOOP = """
typedef float lanes __attribute__((vector_size(64)));
double operations(long rounds) {
  lanes sums[10] = {}, x = {}, y = {};
  for (int i = 0; i < 16; ++i) x[i] = 1.0f, y[i] = 1e-30f;
  for (long r = 0; r < rounds; ++r) {
    __asm__ volatile("" : "+x"(x), "+x"(y));
    for (int k = 0; k < 10; ++k) sums[k] = sums[k] * x + y;
  }
  volatile float kept = 0;
  for (int k = 0; k < 10; ++k) kept += sums[k][0];
  return 2.0 * 16 * 10 * rounds;
}
"""


def limit(threads: int) -> float:
    """GFLOP/s of float32 multiply-adds on so many threads."""
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "loop.c", Path(folder) / "loop.so"
        source.write_text(_LOOP)
        command = ["gcc", "-O3", "-march=native", "-ffast-math", "-shared", "-fPIC", "-Wno-psabi"]
        subprocess.run([*command, str(source), "-o", str(library)], check=True, timeout=60)
        loop = CDLL(str(library)).operations
        loop.restype = c_double
        best = 0.0
        with ThreadPoolExecutor(threads) as pool:
            for _ in range(5):
                begin = time.perf_counter()
                done = sum(pool.map(loop, [2_000_000] * threads))
                best = max(best, done / (time.perf_counter() - begin) / 1e9)
        return best


def _operands(shape: tuple[int, ...], layout: str) -> tuple[Tensor, Tensor]:
    *batch, m, k, n = shape
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(*batch, *((k, m) if "a.T" in layout else (m, k)), generator=generator)
    b = torch.randn(*batch, *((n, k) if "b.T" in layout else (k, n)), generator=generator)
    return (a.mT if "a.T" in layout else a), (b.mT if "b.T" in layout else b)


def _peers(a: torch.Tensor, b: torch.Tensor) -> list[Peer]:
    """The product on the CPU, and by each rule on the device, whose results are compared first."""
    on_hpu = a.to("hpu"), b.to("hpu")
    peers = [Peer("CPU", torch.matmul, (a, b))]
    for rule in RULES:
        _C.set_product_rule(rule)
        # Sums of as many products in another order.
        torch.testing.assert_close(torch.matmul(*on_hpu).cpu(), a @ b, rtol=1e-4, atol=1e-5 * a.shape[-1] ** 0.5)
        choose = functools.partial(_C.set_product_rule, rule)
        peers.append(Peer(rule, torch.matmul, on_hpu, on_hpu=True, before=choose))
    return peers


def products(rounds: int) -> list[Table]:
    """GFLOP/s of products by shape and layout."""
    threads = torch.get_num_threads()
    most = limit(threads)
    title = f"Products of float32, GFLOP/s, {threads} threads; the machine's limit is {most:.0f}"
    table = Table(title, ["shape", "layout", "CPU", *RULES, "auto / better of both", "auto / limit"])
    for shape in (*SHAPES, *BATCHES):
        *batch, m, k, n = shape
        operations = 2.0 * m * n * k * (batch[0] if batch else 1)
        for layout in LAYOUTS:
            a, b = _operands(shape, layout)
            peers = _peers(a, b)
            calls = max(1, min(2000, int(_CALLS_S * most * 0.4e9 / operations)))
            found = in_turns(peers, rounds, calls)
            speeds = {name: Spread.of([operations / s / 1e9 for s in turns.done]) for name, turns in found.items()}
            better = min(("mkl", "onednn"), key=lambda rule: Spread.of(found[rule].done).median)
            auto = speeds["auto"].median
            ratios = f"{auto / speeds[better].median:.2f} {better}", f"{auto / most:.2f}"
            table.rows.append(["x".join(map(str, shape)), layout, *(speeds[name] for name in ("CPU", *RULES)), *ratios])
    _C.set_product_rule("auto")
    return [table]
