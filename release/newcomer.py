"""What a newcomer reads: `python -m release.newcomer openhpu-*.whl`.

The wheel goes into a virtual environment that stands for a container: no compiler on PATH, no HOME, a user who has a
number only, packages that cannot be written. What docs/getting-started.md says runs there literally. Then the first
errors that a newcomer meets are made one by one. The command prints all, and exits with 1 where something else happens.
It needs no root; where the machine allows no namespaces, packages can be written and the user has a name.
"""

import os
import re
import shutil
import site
import subprocess
import sys
import tempfile
import venv
from dataclasses import dataclass, field
from pathlib import Path

from commands import child
from release import ROOT

_FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.M | re.S)
_INSIDE = ["unshare", "--user", "--map-root-user", "--mount"]
_READ_ONLY = '{0} --bind "$0" "$0" && {0} -o remount,bind,ro "$0" && exec {1} --user --map-user=12345 "$@"'
_WHO = (
    "import os, shutil, openhpu; print('user', os.getuid(), 'home', os.environ.get('HOME'), 'may write',"
    " os.access(openhpu.__path__[0], os.W_OK), 'g++', shutil.which('g++'))"
)
_TENSOR = "import torch; print(torch.ones(2, device='hpu').sum().item())"
_GRAPH = (
    "import torch, openhpu, habana_frameworks.torch.core as c\nx = torch.ones(9, device='hpu')\n"
    "for _ in range(4):\n y = x * 2 + 1; c.mark_step()\nopenhpu.wait_for_recipes(); print(y.sum().item())"
)


@dataclass(frozen=True)
class Fault:
    """What is wrong. `core`: the name that the core's file gets. `end`: how the message ends."""

    what: str
    program: str
    end: str
    core: str = "{release}/{name}"
    variables: dict[str, str] = field(default_factory=dict)


_FAULTS = (
    Fault("no g++", _GRAPH, "`apt install g++`", variables={"PT_HPU_LAZY_MODE": "1", "OPENHPU_COMPILE": "sync"}),
    Fault("another PyTorch", _TENSOR, "`pip install .`", core="9{release}/{name}"),
    Fault("another Python", _TENSOR, "openhpu-*.whl`", core="{release}/_C.cpython-39-riscv64-linux-gnu.so"),
    Fault("no core", _TENSOR, "`pip install .`", core="{release}/none"),
)


def packages(folder: Path) -> Path:
    """The environment's packages without this project's, whose entry points belong to its editable installation."""
    own = next(Path(path) for path in site.getsitepackages() if path.startswith(sys.prefix))
    for path in own.iterdir():
        if not re.search("openhpu|habana", path.name):
            (folder / path.name).symlink_to(path)
    return folder


class Container:
    """The place, with a wheel."""

    def __init__(self, folder: Path, wheel: str) -> None:
        self.environment = folder / "env"
        self.work = folder / "work"
        self.inside = list[str]()
        venv.create(self.environment, with_pip=False)
        (self.packages,) = self.environment.glob("lib/python*/site-packages")
        for path in (self.work, folder / "packages"):
            path.mkdir()
        (self.packages / "packages.pth").write_text(f"{packages(folder / 'packages')}\n")
        pip = [
            sys.executable,
            "-m",
            "pip",
            "--python",
            str(self.environment / "bin" / "python"),
            "install",
            "--no-deps",
        ]
        self.run("pip install", [*pip, "--no-index", wheel])
        mount, unshare = shutil.which("mount"), shutil.which("unshare")
        if mount and unshare and not subprocess.run([*_INSIDE, "true"], check=False, timeout=60).returncode:
            script = _READ_ONLY.format(mount, unshare)
            self.inside = [unshare, *_INSIDE[1:], "/bin/sh", "-c", script, str(self.environment)]

    def run(self, title: str, command: list[str], **more: str) -> child.Ended:
        """Run a command in it, and print both."""
        path = str(self.environment / "bin")
        env = {"PATH": path, "TMPDIR": str(self.work), "OPENHPU_MODULE_LOCKS": "0", **more}
        program = shutil.which(command[0], path=path) or command[0]
        ended = child.run([*self.inside, program, *command[1:]], seconds=600, env=env, cwd=self.work)
        print(f"\n$ {title}\n{ended.output.rstrip()}", f"[{ended.how}]" if ended.code else "", flush=True)
        return ended


def main(wheel: str) -> int:
    """Returns 1 where a command of the page fails, or an error does not end as it should."""
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        place = Container(Path(folder), os.path.abspath(wheel))
        said = place.run("who and where", ["python", "-c", _WHO]).output
        if place.inside and "user 12345 home None may write False g++ None" not in said:
            wrong.append("the place is not as it should be")
        for language, code in _FENCE.findall((ROOT / "docs" / "getting-started.md").read_text()):
            if "optimizer.step()" in code:
                (place.work / "train.py").write_text(code)  # the script that the page goes on with
            lines = [line for line in code.splitlines() if not line.startswith("pip install")]
            for command in [line.split() for line in lines] if language == "sh" else [["python", "-c", code]]:
                if place.run(" ".join(command), command).code:
                    wrong.append(" ".join(command))
        cores = [*place.packages.glob("openhpu/cores/*/_C.*")]
        for fault in _FAULTS:
            names = [fault.core.format(name=core.name, release=core.parent.name) for core in cores]
            moved = {core: core.parents[1] / name for core, name in zip(cores, names, strict=True)}
            for core, there in moved.items():
                there.parent.mkdir(exist_ok=True)
                core.rename(there)
            said = place.run(f"with {fault.what}", ["python", "-c", fault.program], **fault.variables).output
            for core, there in moved.items():
                there.rename(core)
            if fault.end not in said:
                wrong.append(f"{fault.what}: {fault.end} is not in what it says")
    print("\nwrong:", *wrong or ["nothing"], sep="\n  ")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
