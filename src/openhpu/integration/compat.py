"""The compiled core that fits the release of PyTorch, the Python and the C library.

Nothing else depends on these yet. A difference in Python belongs here, one in C++ in a header `csrc/compat.h`.
"""

import importlib
import importlib.machinery
import platform
import re
import sys
from pathlib import Path
from types import ModuleType

import openhpu

_ANEW = f"install it with this Python: `{sys.executable} -m pip install --force-reinstall openhpu-*.whl`"
CORES = Path(__file__).parents[1] / "cores"  # a folder for each release, with a core for each Python


def release(version: str) -> str:
    """The part of a PyTorch version that a core belongs to: "2.13" of "2.13.0+cpu"."""
    return ".".join(version.split("+")[0].split(".")[:2])


def built() -> list[str]:
    """The releases of PyTorch that have a core for this Python and machine, the oldest first."""
    suffix = importlib.machinery.EXTENSION_SUFFIXES[0]  # ".cpython-311-x86_64-linux-gnu.so"
    found = {path.parent.name for path in CORES.glob(f"*/_C{suffix}")}
    return sorted(found, key=lambda name: [int(part) for part in name.split(".")])


def libraries(torch_version: str) -> Path:
    """The folder of the core for this PyTorch, with the libraries that users' operators are linked with."""
    return CORES / release(torch_version)


def core(torch_version: str) -> ModuleType:
    """The module `openhpu._C` for this PyTorch, loaded once. ModuleNotFoundError where there is none."""
    folder = str(libraries(torch_version))
    if folder not in openhpu.__path__:
        openhpu.__path__.insert(0, folder)
    return importlib.import_module("openhpu._C")


def other_python() -> str | None:
    """Of a package that was built for another Python or machine: which, and what to do; None for any other."""
    theirs = sorted({path.name.split(".")[1] for path in CORES.glob("*/_C.*.so")})
    if not theirs or built():
        return None
    return (
        f"it was installed for {' and '.join(theirs)}, and this is {sys.implementation.cache_tag} on "
        f"{platform.machine()}; {_ANEW}"
    )


def other_machine(error: ImportError) -> str | None:
    """Of a core that was compiled for another processor, for which the system says that there is no such file: which
    one, and what to do; None for any other error."""
    if not error.path or not Path(error.path).is_file():
        return None
    with open(error.path, "rb") as file:
        head = file.read(20)
    if not head.startswith(b"\x7fELF"):
        return None
    number = int.from_bytes(head[18:], "little")  # e_machine (System V ABI, ELF header)
    theirs = {62: "x86_64", 183: "aarch64"}.get(number, f"the ELF machine {number}")
    if theirs == platform.machine():
        return None
    return f"its compiled core {error.path} is for {theirs}, and this Python runs on {platform.machine()}; {_ANEW}"


def older_library(error: ImportError) -> str | None:
    """Of a core that was compiled on a newer system than this one: which library is too old, and what to do; None for
    any other error."""
    found = re.search(r"version [`'](GLIBC|GLIBCXX|CXXABI)_([\d.]+)' not found", str(error))
    if found is None:
        return None
    library = "GNU C library" if found[1] == "GLIBC" else "C++ library of GCC (libstdc++)"
    return (
        f"its compiled core needs a newer {library} than this system has ({error}); use a newer Linux, or build "
        "openhpu here, with g++ 11 or newer, in its sources: `pip install .`"
    )


def unloadable(error: ImportError) -> str | None:
    """Why no core that was compiled like this one can be loaded here; None where another reason is to be found."""
    return other_machine(error) or older_library(error)
