"""`python -m tests.golden [FOLDER]`: writes the golden files anew; `git diff tests/golden` shows what has changed.

A file NAME.txt has a graph in two forms between the script and Inductor: the Python program that the core's recording
becomes, and the graph of ATen operators after the compiler's passes.
"""

import os
import re
import sys
from pathlib import Path

os.environ |= {
    "PT_HPU_LAZY_MODE": "1",
    "OPENHPU_COMPILE": "background",
    "PT_HPU_RECIPE_CACHE_CONFIG": "",
    "OMP_NUM_THREADS": "1",
    "OPENHPU_MODULE_LOCKS": "0",
}

import torch

import habana_frameworks.torch.core as htcore
from openhpu import _C
from openhpu.compiler import passes
from openhpu.compiler.client import dumps
from openhpu.compiler.inductor import inductor
from openhpu.compiler.passes import constants
from openhpu.compiler.program.program import Program
from openhpu.compiler.program.trace import trace
from tests.golden.programs import PROGRAMS

FOLDER = Path(__file__).parent
_TURNS = 12  # after fewer the core asks for a recipe
_ASKED_S = 60.0


def recorded(make):
    """The description of the largest graph of a program that the core asks a recipe for."""
    step = make()
    found = []
    htcore.mark_step()
    dumps.write = found.append  # the compiler's client calls it with each graph before it sends it on
    for turn in range(_TURNS):
        result = step(turn)
        htcore.mark_step()
        torch.hpu.synchronize()
        del result
    if not _C.wait_for_compile_requests(_ASKED_S):
        raise TimeoutError(f"{make.__name__}: the core's requests were not taken in {_ASKED_S} s")
    # What sets a program up comes first.
    return max(reversed(found), key=lambda graph: len(graph["nodes"]))


def text(make):
    """A golden file."""
    program = Program(recorded(make))
    graph, inputs = trace(program, inductor.decompositions())
    passes.run(graph)
    constants.compile_in(program, graph, inputs)
    parts = {
        # Without source lines, and without inputs, which the program has.
        "program": re.sub(r" *# .*:\d+$|^import torch\n", "", program.text, flags=re.MULTILINE),
        "graph after the passes": re.sub(r"^ *%arg.* = placeholder.*\n", "", str(graph.graph), flags=re.MULTILINE),
    }
    head = f"{make.__name__}: {make.__doc__}\n"
    return head + "".join(f"\n== {name}\n{part.strip()}\n" for name, part in parts.items())


def main(folder):
    for make in PROGRAMS:
        (folder / f"{make.__name__}.txt").write_text(text(make))


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
    os._exit(0)  # what the compiler still compiles is of no use
