"""Builds the C++ core with CMake; everything else is in pyproject.toml."""

import pathlib
import shutil
import subprocess
import sys
import time

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ROOT = pathlib.Path(__file__).resolve().parent
MODULES = [Extension(name, []) for name in ("openhpu._C", "openhpu._machine")]
# Libraries look the vendor's distribution up by name and version (bitsandbytes, optimum-habana): it is there as an
# egg-info directory beside the packages.
PLUGIN = "habana_torch_plugin-1.24.0.egg-info"


class CMakeBuild(build_ext):
    """Builds in place for an editable install, which shares its build with `make build`; else in a folder of its own.

    A second environment then takes nothing from the first one's build, whose tools may be gone.
    """

    def run(self) -> None:
        build, output = ROOT / "build" / "ext", ROOT / "src" / "openhpu"
        if not (self.editable_mode or self.inplace):
            build = pathlib.Path(self.build_temp).resolve()
            output = pathlib.Path(self.get_ext_fullpath(MODULES[0].name)).resolve().parent
        tools = {tool: shutil.which(tool) for tool in ("cmake", "ninja")}
        for tool, path in tools.items():
            if path is None:
                raise RuntimeError(f"building openhpu needs {tool}: pip install {tool}")
        started = time.monotonic()
        subprocess.run(
            [
                "cmake", "-G", "Ninja", "-S", str(ROOT), "-B", str(build), "-DCMAKE_BUILD_TYPE=Release",
                f"-DCMAKE_MAKE_PROGRAM={tools['ninja']}", f"-DPython3_EXECUTABLE={sys.executable}",
                f"-DOPENHPU_OUTPUT_DIR={output}",
            ],
            check=True,
        )  # fmt: skip
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
