"""Compiles a described graph: `compile_recipe`, or `join_regions` if it is divided into regions."""

import contextlib
import dataclasses
import errno
import logging
import os
import shutil
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from openhpu.compiler import passes
from openhpu.compiler.client.disk_cache import publish, sha256, temporary_folder
from openhpu.compiler.client.identity import recipe_key, torch_build, vector_isa
from openhpu.compiler.client.manifest import (
    MANIFEST,
    PROGRAM,
    Manifest,
    ScalarInput,
    SlotTensor,
    library_of,
)
from openhpu.compiler.compile_phases import INDUCTOR, PASSES, TRACE, phases
from openhpu.compiler.errors import CannotCompile
from openhpu.compiler.inductor import inductor
from openhpu.compiler.passes import constants
from openhpu.compiler.program.description import Description
from openhpu.compiler.program.guards import note_guards
from openhpu.compiler.program.program import Program
from openhpu.compiler.program.regions import NODES, Call
from openhpu.compiler.program.trace import trace

_NO_COMPILER = "recipes need a C++ compiler that knows C++20: name one in CXX, or run `apt install g++`"


def compile_recipe(
    description: Description, directory: Path | str, *, key: str | None = None, keep_sources: bool = False
) -> Manifest:
    """Compile a graph into `directory/<key>/` (recipe.so, program.py, manifest.json) and return its manifest.

    `key` defaults to `recipe_key(description)`. The folder appears at once and complete; what was there under that name
    is replaced. With `keep_sources` Inductor's C++ stays beside it. A recipe.json that may be among the
    files belongs to the library and has to stay beside it. Raises CannotCompile (the graph) or OSError (the disk).
    Takes seconds to minutes, and sets the number of PyTorch's threads meanwhile.
    """
    key = key or recipe_key(description)
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    program = Program(description)
    with temporary_folder(".building-", directory) as work:
        with _quietly(description["threads"]):
            with phases.phase(TRACE):
                graph, inputs = trace(program, inductor.decompositions())
            with phases.phase(PASSES):
                passes.run(graph)
            with _told_as_ours(program, directory), phases.phase(INDUCTOR):
                arguments = constants.compile_in(program, graph, inputs)
                kernels, external_kernels = inductor.build(graph, arguments, description["threads"], work)
            note_guards(program, inputs)
        known = constants.slots(program)
        _remove_leftovers(work, keep_sources)
        (work / PROGRAM).write_text(program.text)
        manifest = Manifest(
            key=key,
            inputs=tuple(SlotTensor.of(s.index, s.base) for s in program.plan.inputs if s not in known),
            scalar_inputs=tuple(ScalarInput(i, program.scalar_dtype(i)) for i in program.plan.scalars),
            variable=tuple(i for i, variable in enumerate(description["variable"]) if variable),
            outputs=tuple(SlotTensor.of(s.index, s.base) for s in program.plan.outputs),
            mutated=tuple(program.plan.mutated),
            guards=tuple(program.symbols.guards),
            counted=tuple(program.counted),
            overflowing=tuple(program.overflowing),
            nodes=len(description["nodes"]),
            kernels=kernels,
            external_kernels=external_kernels,
            torch=torch_build(),
            isa=vector_isa(),
            threads=description["threads"],
            files={path.name: sha256(path) for path in sorted(work.iterdir())},
        )
        (work / MANIFEST).write_text(manifest.to_json())
        publish(work, directory / key)
    return manifest


@contextlib.contextmanager
def _told_as_ours(program: Program, directory: Path) -> Iterator[None]:
    """Errors of Inductor and of the C++ compiler, which are of many kinds, become CannotCompile or OSError."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        if (full := os.strerror(errno.ENOSPC)) in str(error):  # the output of a compiler
            raise OSError(errno.ENOSPC, full, str(directory)) from error
        if "InvalidCxxCompiler" in f"{type(error).__name__} {error}":
            raise CannotCompile(_NO_COMPILER) from error
        where = getattr(error, "phase", INDUCTOR)
        raise CannotCompile(f"{where}: {_reason(error)}", scalars=program.plan.scalars) from error


def _remove_leftovers(work: Path, keep_sources: bool) -> None:
    """Remove what Inductor leaves in its folder beside the files of a recipe."""
    for path in work.iterdir():
        if path.name in inductor.FILES or (keep_sources and path.suffix == ".cpp"):
            continue
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


def join_regions(
    description: Description, directory: Path, key: str, regions: Sequence[tuple[Manifest, Path]], calls: Sequence[Call]
) -> Manifest:
    """Write the recipe of a divided graph into `directory/<key>/`: its regions' libraries, and the calls. `regions`:
    the recipe of each, and the folder that it is in. Raises CannotCompile or OSError."""
    directory.mkdir(parents=True, exist_ok=True)
    external: Counter[str] = Counter()
    for call in calls:
        if call.region != NODES:
            external.update(regions[call.region][0].external_kernels)
    with temporary_folder(".building-", directory) as work:
        for number, (_, folder) in enumerate(regions):
            for file in inductor.FILES:
                if (folder / file).exists():
                    shutil.copyfile(folder / file, (work / library_of(number)).with_suffix(Path(file).suffix))
        (work / PROGRAM).write_text(Program(description).text)
        manifest = Manifest(
            key=key,
            inputs=(),
            scalar_inputs=(),
            variable=tuple(i for i, variable in enumerate(description["variable"]) if variable),
            outputs=(),
            mutated=(),
            guards=tuple(dict.fromkeys(guard for region, _ in regions for guard in region.guards)),
            counted=(),
            overflowing=(),
            nodes=len(description["nodes"]),
            kernels=sum(region.kernels for region, _ in regions),
            external_kernels=dict(external),
            torch=torch_build(),
            isa=vector_isa(),
            threads=description["threads"],
            files={path.name: sha256(path) for path in sorted(work.iterdir())},
            regions=tuple(dataclasses.replace(region, files={}) for region, _ in regions),
            calls=tuple(calls),
        )
        (work / MANIFEST).write_text(manifest.to_json())
        publish(work, directory / key)
    return manifest


def _reason(error: Exception) -> str:
    """The kind of error and its first lines; for a compiler, whose text begins with its command, its error lines."""
    head, _, output = str(error).partition("\nOutput:\n")
    printed = output.splitlines()
    wrong = [line for line in printed if "error" in line.lower()] or printed
    lines = [line for line in (*head.partition("\nCommand:\n")[0].splitlines(), *wrong) if line.strip()]
    return " / ".join([type(error).__name__, *lines[:3]])


@contextlib.contextmanager
def _quietly(threads: int) -> Iterator[None]:
    """With so many threads. Inductor's warnings do not help a user who did not ask for Inductor."""
    logger = logging.getLogger("torch")
    with contextlib.ExitStack() as stack:
        stack.callback(logger.setLevel, logger.level)
        stack.callback(torch.set_num_threads, torch.get_num_threads())
        stack.enter_context(warnings.catch_warnings(action="ignore"))
        logger.setLevel(logging.ERROR)
        torch.set_num_threads(threads)
        yield
