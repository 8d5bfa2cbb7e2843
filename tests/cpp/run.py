#!/usr/bin/env python3
"""Builds and runs the C++ tests of csrc/device, plain and with ThreadSanitizer. Arguments are passed to ctest."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILDS = {"build/cpp": [], "build/cpp-tsan": ["-DOPENHPU_SANITIZE=thread"]}


def tool(name):
    """The program of that name: on PATH, beside this Python, or in the project's own environment."""
    for folder in (None, Path(sys.executable).parent, ROOT / ".venv" / "bin"):
        if found := shutil.which(name, path=folder and str(folder)):
            return found
    raise SystemExit(f"{name} not found: install it, or make the project's environment with `make setup`")


def run(*command):
    """Whether the command succeeded."""
    sys.stdout.write(f"$ {' '.join(map(str, command))}\n")
    sys.stdout.flush()
    return subprocess.run(command, cwd=ROOT, check=False).returncode == 0


def build_and_test(folder, options, arguments):
    cmake, ninja = tool("cmake"), tool("ninja")
    # CMake picks its own reconfiguration up; an existing folder is configured again in no time.
    configured = run(
        cmake, "-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}", "-S", ".", "-B", folder,
        "-DOPENHPU_BUILD_TESTS=ON", "-DOPENHPU_BUILD_EXTENSION=OFF", f"-DPython3_EXECUTABLE={sys.executable}", *options,
    )  # fmt: skip
    jobs = f"-j{os.cpu_count() or 1}"
    return (
        configured
        and run(cmake, "--build", folder, jobs)
        and run(tool("ctest"), "--test-dir", folder, jobs, "--output-on-failure", "--no-tests=error", *arguments)
    )


def main(arguments):
    failed = [folder for folder, options in BUILDS.items() if not build_and_test(folder, options, arguments)]
    if failed:
        sys.stdout.write(f"failed: {', '.join(failed)}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
