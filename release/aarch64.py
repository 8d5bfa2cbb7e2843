"""`make aarch64`: builds the wheel for 64-bit Arm, and runs it in QEMU with the package index's PyTorch: see ROWS.

It needs an x86-64 machine with Debian 12 and its cross compiler. What it brings and builds (release/cross.py) is kept
in build/aarch64, and each row that has passed as long as the wheel and the tests stay the same. BUDGET=minutes changes
its 120 minutes. `python -m release.aarch64 lazy graph` runs some rows anew.
"""

import argparse
import os
import shutil
import sys
from pathlib import Path
from typing import Any, NamedTuple

from commands import child
from commands.budget import Budget
from commands.kept import Kept, fingerprint
from release import ROOT, cross, wheel
from release.cross import FOLDER
from release.environments import StepError, checked
from tests.processes import clean_environment

MINUTES = 120.0
ROW_S = 900.0
INSTALLED = FOLDER / "installed"
BITS = FOLDER / "bits.json"
HOME = FOLDER / "home"
SMOKE = ("-m", "release.smoke")
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore", "-o", "faulthandler_timeout=800")
OLD = "cortex-a72"
SVE = "max,sve-default-vector-length=32"  # of 256 bits, which PyTorch uses


class Row(NamedTuple):
    """`cpu`: QEMU's processor, "" for this machine's. `path`: the folders of openhpu."""

    arguments: tuple[str, ...]
    cpu: str = OLD
    variables: dict[str, str] = {}  # noqa: RUF012
    path: tuple[Path, ...] = (INSTALLED,)


def refused(*words: str) -> tuple[str, ...]:
    return (*SMOKE, "refused", *words, "install it with this Python")


EAGER = {"PT_HPU_LAZY_MODE": "0", "OPENHPU_COMPILE": "sync"}
LAZY = {"PT_HPU_LAZY_MODE": "1", "OPENHPU_COMPILE": "sync", "PT_HPU_RECIPE_CACHE_CONFIG": f"{FOLDER}/recipes"}
STRICT = {"OPENHPU_STRICT": "gaudi", "OPENHPU_COMPILE": "off"}
COMPILED = "tests/hpu/test_compiled_eagerly_torch_compile.py::test_training_is_that_of_eager_mode"
SOURCES = ROOT / "src"
MIXED = FOLDER / "mixed"
ROWS = {
    "bits of x86-64": Row((*SMOKE, "bits", str(BITS)), "", path=(SOURCES,)),
    "bits": Row((*SMOKE, "bits", str(BITS))),
    "bits, SVE": Row((*SMOKE, "bits", str(BITS)), SVE),
    "device": Row((*SMOKE, "device")),
    "user operators": Row((*SMOKE, "custom_ops")),
    "autograd": Row((*SMOKE, "autograd")),
    "autograd, SVE": Row((*SMOKE, "autograd"), SVE),
    "lazy": Row((*SMOKE, "lazy", "graph_compilation"), variables=LAZY),
    "lazy, from disk": Row((*SMOKE, "lazy", "recipe_loaded"), variables=LAZY),
    "lazy, SVE": Row((*SMOKE, "lazy", "graph_compilation"), SVE, LAZY),
    "graph": Row((*PYTEST, "tests/hpu/test_graph_capture.py"), variables={"OPENHPU_COMPILE": "off"}),
    "torch.compile": Row((*PYTEST, COMPILED), variables=EAGER),
    "updates in recipes": Row(
        (*PYTEST, "tests/hpu/test_compiled_same_bits.py", "-k", "updates and float32"), variables=LAZY
    ),
    "hccl, shared memory": Row((*TORCHRUN, *SMOKE, "hccl", "1")),
    "hccl, sockets": Row((*TORCHRUN, *SMOKE, "hccl", "0"), variables={"OPENHPU_NODE_COLLECTIVES": "0"}),
    "fallback": Row((*PYTEST, "tests/hpu/test_fallback.py"), variables={"OPENHPU_COMPILE": "off"}),
    "strict, lazy": Row((*SMOKE, "strict", "lazy"), variables=STRICT | {"PT_HPU_LAZY_MODE": "1"}),
    "strict, eager": Row((*SMOKE, "strict", "eager"), variables=STRICT),
    "x86-64's package": Row(refused("it was installed for", "x86_64-linux-gnu"), path=(SOURCES, INSTALLED)),
    "x86-64's core": Row(refused("is for x86_64, and this Python runs on aarch64"), path=(MIXED / "aarch64",)),
    "Arm's package on x86-64": Row(refused("it was installed for", "aarch64-linux-gnu"), ""),
    "Arm's core on x86-64": Row(
        refused("is for aarch64, and this Python runs on x86_64"), "", path=(MIXED / "x86_64",)
    ),
}


def prepare(budget: Budget) -> None:
    """Everything up to the installed wheel. StepError."""
    if absent := cross.missing(cross.COMPILER, cross.EMULATOR):
        raise StepError(absent)
    for step, make in (("Debian's Python", cross.system), ("PyTorch for Arm", cross.packages), ("wheel", install)):
        with budget.doing("make aarch64", step):
            make(budget)
        budget.say(f"{step}: there")


def install(budget: Budget) -> None:
    wheel.WORK.mkdir(parents=True, exist_ok=True)
    wheel.arm_core(cross.TORCH, budget)
    made = wheel.pack(FOLDER / "wheel", budget, **cross.WHEEL)
    shutil.rmtree(INSTALLED, ignore_errors=True)
    argv = cross.index(INSTALLED, "--no-index", "--no-deps", str(made))
    checked("pip", argv, budget.seconds(300), FOLDER / "pip.txt")
    mix()


def mix() -> None:
    """Both packages, each with the other machine's core under its own core's name."""
    release = ".".join(cross.TORCH.split(".")[:2])
    cores = {
        "aarch64": next(INSTALLED.glob(f"openhpu/cores/{release}/_C.*")),
        "x86_64": next(SOURCES.glob(f"openhpu/cores/{release}/_C.*x86_64*")),
    }
    shutil.rmtree(MIXED, ignore_errors=True)
    for (machine, mine), other in zip(cores.items(), reversed(cores.values()), strict=True):
        package = next(path for path in mine.parents if path.name == "openhpu")
        shutil.copytree(package.parent, MIXED / machine, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy2(other, MIXED / machine / mine.relative_to(package.parent))


def run(name: str, row: Row, budget: Budget) -> dict[str, Any]:
    """What became of a row."""
    if name == "bits of x86-64":
        BITS.unlink(missing_ok=True)
    if "graph_compilation" in row.arguments:
        shutil.rmtree(LAZY["PT_HPU_RECIPE_CACHE_CONFIG"], ignore_errors=True)
    HOME.mkdir(exist_ok=True)
    own = {"PYTHONPATH": os.pathsep.join(map(str, row.path)), "OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive"}
    own |= {"QEMU_CPU": row.cpu, "CXX": str(cross.CXX), "GLOO_SOCKET_IFNAME": "lo"} if row.cpu else {}
    environment = clean_environment(HOME, **own, OPENHPU_HEADER_CACHE=str(FOLDER / "headers"), **row.variables)
    log = FOLDER / "logs" / f"{''.join(c if c.isalnum() else '-' for c in name)}.txt"
    log.parent.mkdir(exist_ok=True)
    argv = [str(cross.RUN) if row.cpu else sys.executable, *row.arguments]
    with budget.doing("make aarch64", name):
        ended = child.run(argv, seconds=budget.seconds(ROW_S), log=log, env=environment, cwd=ROOT)
    said = [line for line in ended.output.splitlines() if line.startswith("found: ") or " passed" in line]
    return {
        "passed": ended.code == 0,
        "seconds": round(ended.seconds),
        "found": said[-1] if said else "",
        "how": f"{ended.how}; see {log}\n{ended.tail}",
    }


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m release.aarch64", description=__doc__)
    parser.add_argument("rows", nargs="*", choices=[[], *ROWS], help="rows; all, if none is given")
    chosen = parser.parse_args().rows or [*ROWS]
    with Budget("make aarch64", MINUTES) as budget:
        budget.planned(chosen)
        try:
            prepare(budget)
        except StepError as error:
            budget.say(str(error))
            return 1
        kept = Kept("aarch64", fingerprint([INSTALLED, Path(__file__), ROOT / "release/smoke.py", ROOT / "tests/hpu"]))
        if len(chosen) < len(ROWS) or len(kept.results) == len(ROWS):
            kept.forget(chosen)
        for name in chosen:
            if name not in kept.results:
                found = run(name, ROWS[name], budget)
                if found["passed"]:
                    kept.add(name, found)
                else:
                    budget.say(f"{name}: {found['how']}")
            budget.done(name, "passed" if name in kept.results else "failed")
        for name in chosen:
            found = kept.results.get(name)
            budget.say(
                f"{name:23} passed in {found['seconds']:4} s  {found['found']}" if found else f"{name:23} FAILED"
            )
        return int(any(name not in kept.results for name in chosen))


if __name__ == "__main__":
    sys.exit(main())
