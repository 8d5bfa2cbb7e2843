"""Builds the C++ core with CMake; everything else is in pyproject.toml."""

import pathlib
import shutil
import subprocess
import sys

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ROOT = pathlib.Path(__file__).resolve().parent
# Libraries look the vendor's distribution up by name and version (bitsandbytes, optimum-habana): it is there as an
# egg-info directory beside the packages.
PLUGIN = "habana_torch_plugin-1.24.0.egg-info"


class CMakeBuild(build_ext):
    def build_extension(self, ext: Extension) -> None:
        # Always built in place, so that an editable install and `make build` share one build; then copied to where
        # setuptools expects it.
        output = ROOT / "src" / "openhpu"
        expected = pathlib.Path(self.get_ext_fullpath(ext.name)).resolve()
        build = ROOT / "build" / "ext"
        for tool in ("cmake", "ninja"):
            if shutil.which(tool) is None:
                raise RuntimeError(f"building openhpu needs {tool}: pip install {tool}")
        subprocess.run(
            [
                "cmake", "-G", "Ninja", "-S", str(ROOT), "-B", str(build), "-DCMAKE_BUILD_TYPE=Release",
                f"-DPython3_EXECUTABLE={sys.executable}", f"-DOPENHPU_OUTPUT_DIR={output}",
            ],
            check=True,
        )  # fmt: skip
        subprocess.run(["cmake", "--build", str(build)], check=True)
        if expected.parent != output:
            expected.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(output / expected.name, expected)


class BuildPy(build_py):
    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            self.copy_tree(str(ROOT / "src" / PLUGIN), str(pathlib.Path(self.build_lib) / PLUGIN))


setup(ext_modules=[Extension("openhpu._C", [])], cmdclass={"build_ext": CMakeBuild, "build_py": BuildPy})
