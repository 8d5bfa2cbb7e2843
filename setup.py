"""Builds the C++ core with CMake; everything else is in pyproject.toml."""

import importlib.util
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ROOT = pathlib.Path(__file__).resolve().parent
SOURCE = ROOT / "src" / "openhpu"
sys.path.insert(0, str(ROOT))
import build_backend  # noqa: E402

MODULES = [Extension(name, []) for name in ("openhpu._C", "openhpu._machine")]
# Libraries look the vendor's distribution up by name and version (bitsandbytes, optimum-habana): it is there as an
# egg-info directory beside the packages.
PLUGIN = "habana_torch_plugin.egg-info"


def torch_folder() -> str:
    """Of the PyTorch to build for: OPENHPU_BUILD_TORCH, or that of the build's environment, or the one beside which
    openhpu is installed."""
    if given := os.environ.get("OPENHPU_BUILD_TORCH"):
        return given
    found = importlib.util.find_spec("torch")
    folder = pathlib.Path(found.origin).parent if found and found.origin else build_backend.installed_torch()
    if folder is None:
        raise RuntimeError(f"building openhpu needs PyTorch: pip install '{build_backend.TORCH}'")
    return str(folder)


def copy_built(built: pathlib.Path, output: pathlib.Path) -> None:
    """What was built: for each PyTorch the core for this Python and the interface of recipes; `_machine`."""
    suffix = os.environ.get("SETUPTOOLS_EXT_SUFFIX") or sysconfig.get_config_var("EXT_SUFFIX")
    for name in (f"cores/*/_C{suffix}", "cores/*/interface.o", f"_machine{suffix}", "cores/*/lib*.so"):
        for path in built.glob(name):
            target = output / path.relative_to(built)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)


class CMakeBuild(build_ext):
    """Builds in place for an editable install, which shares its build with `make build`; else in a folder of its own.

    A second environment then takes nothing from the first one's build, whose tools may be gone.
    """

    def run(self) -> None:
        build, output = pathlib.Path(os.environ.get("OPENHPU_BUILD_FOLDER") or ROOT / "build" / "ext"), SOURCE
        if not (self.editable_mode or self.inplace):
            build = pathlib.Path(self.build_temp).resolve()
            output = pathlib.Path(self.get_ext_fullpath(MODULES[0].name)).resolve().parent
            if built := os.environ.get("OPENHPU_BUILT_CORES"):  # the folder where `make wheel` has built them
                return copy_built(pathlib.Path(built), output)
        for path in SOURCE.glob("_C.*.so"):  # of a build before 0.2, which had one place for them
            path.unlink()
        tools = {tool: shutil.which(tool) for tool in ("cmake", "ninja")}
        for tool, path in tools.items():
            if path is None:
                raise RuntimeError(f"building openhpu needs {tool}: pip install {tool}")
        started = time.monotonic()
        subprocess.run(
            [
                "cmake",
                "-G",
                "Ninja",
                "-S",
                str(ROOT),
                "-B",
                str(build),
                "-DCMAKE_BUILD_TYPE=Release",
                f"-DCMAKE_MAKE_PROGRAM={tools['ninja']}",
                f"-DPython3_EXECUTABLE={sys.executable}",
                f"-DOPENHPU_OUTPUT_DIR={output}",
                f"-DTORCH_ROOT={torch_folder()}",
                *shlex.split(os.environ.get("CMAKE_ARGS", "")),
            ],
            check=True,
        )
        subprocess.run(["cmake", "--build", str(build)], check=True)
        # pip shows it with -v only; `make build` reads it.
        said = f"the core was built in {time.monotonic() - started:.0f} s"
        (build / "built.txt").write_text(f"{said}\n")
        print(said)


class BuildPy(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            self.copy_tree(str(ROOT / "src" / PLUGIN), str(pathlib.Path(self.build_lib) / PLUGIN))


setup(ext_modules=MODULES, cmdclass={"build_ext": CMakeBuild, "build_py": BuildPy})
