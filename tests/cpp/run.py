#!/usr/bin/env python3
"""Builds and runs the C++ tests of csrc/device, plain and with ThreadSanitizer. Arguments are passed to ctest."""

import os
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from commands import child  # noqa: E402
from commands.budget import Budget  # noqa: E402

MINUTES = 40  # two builds and their tests, on a fresh clone
BUILDS = {"build/cpp": [], "build/cpp-tsan": ["-DOPENHPU_SANITIZE=thread"]}


def tool(name):
    """The program of that name: on PATH, beside this Python, or in the project's own environment."""
    for folder in (None, Path(sys.executable).parent, ROOT / ".venv" / "bin"):
        if found := shutil.which(name, path=folder and str(folder)):
            return found
    raise SystemExit(f"{name} not found: install it, or make the project's environment with `make setup`")


def run(budget, *command):
    """Whether the command succeeded; what it prints appears at once."""
    words = [str(word) for word in command]
    budget.say(f"$ {' '.join(words)}")
    with budget.doing("C++", f"{Path(words[0]).name} {' '.join(words[1:4])}"):
        ended = child.run(words, cwd=ROOT, seconds=budget.seconds(), on_line=budget.say)
    return ended.code == 0


def build_and_test(budget, folder, options, arguments):
    cmake, ninja = tool("cmake"), tool("ninja")
    # CMake picks its own reconfiguration up; an existing folder is configured again in no time.
    configure = [
        cmake,
        "-G",
        "Ninja",
        f"-DCMAKE_MAKE_PROGRAM={ninja}",
        "-S",
        ".",
        "-B",
        folder,
        "-DOPENHPU_BUILD_TESTS=ON",
        "-DOPENHPU_BUILD_EXTENSION=OFF",
        f"-DPython3_EXECUTABLE={sys.executable}",
        *options,
    ]
    jobs = f"-j{os.cpu_count() or 1}"
    build = [cmake, "--build", folder, jobs]
    shown = ["--output-on-failure", "--no-tests=error", "--timeout", "120"]
    test = [tool("ctest"), "--test-dir", folder, jobs, *shown, *arguments]
    return all(run(budget, *command) for command in (configure, build, test))


def main(arguments):
    failed = []
    with Budget("C++ tests", MINUTES) as budget:
        budget.planned(BUILDS)
        for folder, options in BUILDS.items():
            good = build_and_test(budget, folder, options, arguments)
            budget.done(folder, "passed" if good else "failed")
            failed += [] if good else [folder]
    if failed:
        sys.stdout.write(f"failed: {', '.join(failed)}\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
