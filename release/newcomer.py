"""What a newcomer reads: `python -m release.newcomer openhpu-*.whl`.

The wheel goes into a virtual environment that stands for a container: no compiler on PATH, no HOME, a user who has a
number only, packages that cannot be written. What docs/getting-started.md says runs there literally. Then the first
errors that a newcomer meets are made one by one. The command prints all, and exits with 1 where something else happens.
It needs no root; where the machine allows no namespaces, packages can be written and the user has a name.
"""

import argparse
import os
import re
import shutil
import site
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from pathlib import Path

from commands import child
from release import ROOT

_LIMIT_S = 600.0
_PAGE = ROOT / "docs" / "getting-started.md"
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.M | re.S)
_INSIDE = ["unshare", "--user", "--map-root-user", "--mount"]
_READ_ONLY = '{0} --bind "$0" "$0" && {0} -o remount,bind,ro "$0" && exec {1} --user --map-user=12345 "$@"'
_TENSOR = "import torch; print(torch.ones(2, device='hpu').sum().item())"
_GRAPH = (
    "import torch, openhpu, habana_frameworks.torch.core as c\nx = torch.ones(9, device='hpu')\n"
    "for _ in range(4):\n y = x * 2 + 1; c.mark_step()\nopenhpu.wait_for_recipes(); print(y.sum().item())"
)
_WHO = (
    "import os, openhpu; print('user', os.getuid(), 'home', os.environ.get('HOME'), 'may write',"
    " os.access(openhpu.__path__[0], os.W_OK), 'g++', __import__('shutil').which('g++'))"
)
# What is wrong, how the core's file is renamed for that, the program and its environment, and how the message ends.
_ERRORS = (
    ("no g++", "", _GRAPH, {"PT_HPU_LAZY_MODE": "1", "OPENHPU_COMPILE": "sync"}, "`apt install g++`"),
    ("another PyTorch", "9{release}/{name}", _TENSOR, {}, "`pip install .`"),
    ("another Python", "{release}/_C.cpython-39-riscv64-linux-gnu.so", _TENSOR, {}, "openhpu-*.whl`"),
    ("no core", "{release}/none", _TENSOR, {}, "`pip install .`"),
    ("a wrong setting", "", _TENSOR, {"OPENHPU_INT64": "wide"}, "allowed: exact, gaudi. Change it or unset it."),
)


def packages(folder: Path) -> Path:
    """The environment's packages without this project's, whose entry points belong to its editable installation."""
    own = next(Path(path) for path in site.getsitepackages() if path.startswith(sys.prefix))
    folder.mkdir()
    for path in own.iterdir():
        if not re.search("openhpu|habana", path.name):
            (folder / path.name).symlink_to(path)
    return folder


class Container:
    """The place, with a wheel."""

    def __init__(self, folder: Path, wheel: Path) -> None:
        self.environment, self.work = folder / "env", folder / "work"
        self.inside: list[str] = []
        venv.create(self.environment, with_pip=False)
        (self.packages,) = self.environment.glob("lib/python*/site-packages")
        (self.packages / "packages.pth").write_text(f"{packages(folder / 'packages')}\n")
        self.python = str(self.environment / "bin" / "python")
        pip = [sys.executable, "-m", "pip", "--python", self.python, "install", "--no-deps", "--no-index", str(wheel)]
        self.show(f"pip install {wheel.name}", pip, dict(os.environ))
        self.work.mkdir(mode=0o777)
        mount, unshare = shutil.which("mount"), shutil.which("unshare")
        if mount and unshare and not subprocess.run([*_INSIDE, "true"], check=False, timeout=60).returncode:
            script = _READ_ONLY.format(mount, unshare)
            self.inside = [unshare, *_INSIDE[1:], "/bin/sh", "-c", script, str(self.environment)]
        else:
            print("This machine allows no namespaces: packages can be written, and the user has a name.")

    def run(self, title: str, command: list[str], **more: str) -> child.Ended:
        """Run a command in it."""
        env = {"PATH": str(self.environment / "bin"), "TMPDIR": str(self.work), "OPENHPU_MODULE_LOCKS": "0", **more}
        program = shutil.which(command[0], path=env["PATH"]) or command[0]
        return self.show(title, [*self.inside, program, *command[1:]], env)

    def show(self, title: str, command: list[str], env: dict[str, str]) -> child.Ended:
        print(f"\n$ {title}")
        ended = child.run(command, seconds=_LIMIT_S, env=env, cwd=self.work if self.work.is_dir() else None)
        print(ended.output.rstrip(), f"[{ended.how}]" if ended.code else "", flush=True)
        return ended


def literally(text: str, work: Path) -> Iterator[tuple[str, list[str]]]:
    """The commands of a page, but for the installation. A block with a loop becomes the script train.py."""
    for language, code in _FENCE.findall(text):
        if language == "python":
            if "optimizer.step()" in code:
                (work / "train.py").write_text(code)
            yield code.strip(), ["python", "-c", code]
        for line in code.splitlines() if language == "sh" else ():
            if not line.startswith("pip install"):
                yield line, line.split()


def main(arguments: list[str] | None = None) -> int:
    """Returns 1 where a command of the page fails, or an error does not end as it should."""
    parser = argparse.ArgumentParser(prog="python -m release.newcomer", description=__doc__)
    parser.add_argument("wheel", type=Path)
    wheel = parser.parse_args(arguments).wheel.absolute()
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        place = Container(Path(folder), wheel)
        said = place.run("who and where", ["python", "-c", _WHO]).output
        if place.inside and "user 12345 home None may write False g++ None" not in said:
            wrong.append("the place is not as it should be")
        for title, command in literally(_PAGE.read_text(), place.work):
            if place.run(title, command).code:
                wrong.append(title)
        cores = [*place.packages.glob("openhpu/cores/*/_C.*")]
        for what, new, code, variables, end in _ERRORS:
            moved = [core.parents[1] / (new or "{release}/{name}").format(name=core.name, release=core.parent.name)
                     for core in cores]  # fmt: skip
            for core, there in zip(cores, moved, strict=True):
                there.parent.mkdir(exist_ok=True)
                core.rename(there)
            said = place.run(f"with {what}", ["python", "-c", code], **variables).output
            for core, there in zip(cores, moved, strict=True):
                there.rename(core)
            if end not in said:
                wrong.append(f"{what}: {end} is not in what it says")
    print("\nwrong:", *wrong or ["nothing"], sep="\n  ")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
