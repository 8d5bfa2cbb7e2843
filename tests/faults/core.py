"""The core with a fault in it: what the fault changes is compiled anew, and linked to the rest of the project's build.

So a fault costs one file and one link, and nothing is compiled again when it is taken out.
"""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

from commands import ROOT, child

BUILD = ROOT / "build" / "ext"  # `make build`'s
BUILT = (".so", ".o")  # what it puts beside the Python code
_INCLUDED = re.compile(r'^#include "(.+)"', re.MULTILINE)
_NICE = 5
_COMPILE_S = 400.0


def changed_sources(tree: Path, changed: tuple[str, ...]) -> set[str]:
    """The compiled files of a tree that are among `changed` or include one of them, by however many others."""
    csrc = tree / "csrc"
    includes = {
        str(path.relative_to(tree)): {f"csrc/{name}" for name in _INCLUDED.findall(path.read_text())}
        for path in csrc.rglob("*")
        if path.suffix in (".cpp", ".h")
    }
    reached = set(changed)
    while more := {name for name, included in includes.items() if included & reached} - reached:
        reached |= more
    return {name for name in reached if name.endswith(".cpp")}


def restore(tree: Path) -> None:
    """Put the project's own core into the copy, with what recipes are linked to."""
    for path in (ROOT / "src" / "openhpu").rglob("*"):
        if path.suffix in BUILT:
            target = tree / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)


def build(tree: Path, changed: tuple[str, ...], objects: Path) -> str:
    """Put a core with the tree's `changed` files into it; what compiler or linker say if that fails.

    Only `_C` is made: `_machine` knows nothing but the machine's cores and memory.
    """
    wanted = changed_sources(tree, changed)
    compiled: dict[str, str] = {}  # objects of the project's build, and what takes their place
    for entry in json.loads((BUILD / "compile_commands.json").read_text()):
        source = Path(entry["file"])
        ours = os.path.relpath(entry["output"], BUILD)
        # What is compiled together is one file of the build, which includes the others.
        parts = _INCLUDED.findall(source.read_text()) if source.is_relative_to(BUILD) else [str(source)]
        if wanted.isdisjoint(os.path.relpath(part, ROOT) for part in parts) or "_machine.dir" in ours:
            continue
        target = objects / ours
        target.parent.mkdir(parents=True, exist_ok=True)
        command = entry["command"].replace(f"{ROOT}/csrc/", f"{tree}/csrc/").replace(f"-I{ROOT}/csrc", f"-I{tree}/csrc")
        if source.is_relative_to(BUILD):
            renewed = target.with_suffix(".cpp")
            renewed.write_text(source.read_text().replace(f"{ROOT}/csrc/", f"{tree}/csrc/"))
            command = command.replace(f"-c {source}", f"-c {renewed}")
        command = command.replace(" -Werror ", " ").replace(f"-o {ours}", f"-o {target}")  # a fault may make warnings
        if said := _run(command):
            return said
        compiled[ours] = str(target)
    if not compiled:
        return f"nothing that is compiled has to do with {', '.join(changed)}"
    library = _library()
    ninja = ["ninja", "-C", str(BUILD), "-t", "commands", "-s", str(library)]
    link = subprocess.run(ninja, capture_output=True, text=True, check=True, timeout=60).stdout
    link = link[link.index(": &&") :].replace(f"-o {library}", f"-o {tree / library.relative_to(ROOT)}")
    for ours, target in compiled.items():
        if ours in link:
            link = link.replace(f" {ours} ", f" {target} ")
        else:  # in an archive, of which the linker takes no object that it has already
            link = link.replace(" libopenhpu_device.a ", f" {target} libopenhpu_device.a ")
    return _run(link)


def _library() -> Path:
    """The core that `make build` has made; there may be others, for another PyTorch."""
    torch = re.search("TORCH_ROOT:PATH=(.*)", (BUILD / "CMakeCache.txt").read_text())
    assert torch
    version = re.search(r"__version__ = '(\d+\.\d+)", (Path(torch[1]) / "version.py").read_text())
    assert version
    (library,) = (ROOT / "src" / "openhpu" / "cores" / version[1]).glob("_C.*.so")
    return library


def _run(command: str) -> str:
    ended = child.run(["nice", f"-n{_NICE}", "sh", "-c", command], seconds=_COMPILE_S, cwd=BUILD)
    return f"{ended.output[-4000:]}\n{ended.how}" if ended.code else ""
