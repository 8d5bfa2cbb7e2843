"""How tests load torchvision.

PyPI has CUDA's build of it only, which needs nothing beside PyTorch's build for CUDA. Its CPU kernels load beside the
build for the CPU once the CUDA libraries that it names exist, so empty ones are built; nothing of them is called.
"""

import ctypes
import importlib.util
import re
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DOWNLOADED = Path(sys.prefix) / "torchvision"  # by `make test`, out of the environment's own packages
MISSING = "torchvision is not installed; `make test` downloads it"


def folder() -> Path | None:
    """Where torchvision lies, or None."""
    if DOWNLOADED.exists():
        return DOWNLOADED
    found = importlib.util.find_spec("torchvision")
    return Path(found.submodule_search_locations[0]).parent if found and found.submodule_search_locations else None


def load() -> Any:
    """Its operators, in this process. Raises ModuleNotFoundError."""
    place = folder()
    if place is None:
        raise ModuleNotFoundError(MISSING)
    if "torchvision" not in sys.modules:
        sys.path[:0] = [str(place)] if place == DOWNLOADED else []
        with tempfile.TemporaryDirectory() as empty:
            for library in empty_libraries(place / "torchvision" / "_C.so", Path(empty)):
                ctypes.CDLL(library, ctypes.RTLD_GLOBAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its reading of images does not load
        return importlib.import_module("torchvision.ops")


def empty_libraries(extension: Path, folder: Path) -> list[str]:
    """Libraries with the names and symbols of CUDA's that `extension` was linked with; paths, in loading order.

    None beside PyTorch's build for CUDA, which has them.
    """
    import torch

    if torch.version.cuda:
        return []
    dynamic = subprocess.run(["readelf", "-d", extension], capture_output=True, text=True, check=True).stdout
    names = re.findall(r"\(NEEDED\).*\[(lib\w*cud\w*\.so[.\d]*)\]", dynamic)
    symbols = subprocess.run(["nm", "-D", "-u", extension], capture_output=True, text=True, check=True).stdout
    needed = sorted(set(re.findall(r"U ((?:__)?cuda\w+|_ZNK?(?:2at|3c10)4cuda\w+)", symbols)))
    # Registering kernels wants a handle back; it is done when the library is loaded.
    source = "".join(f"static long of_{name}[64]; void* {name}(void) {{ return of_{name}; }}\n" for name in needed)
    (folder / "empty.c").write_text(source)
    (folder / "versions").write_text(f"{next((n for n in names if 'cudart' in n), 'none')} {{ global: *; }};\n")
    for name in names:
        subprocess.run(
            [
                "g++",
                "-x",
                "c",
                "-shared",
                "-fPIC",
                "-w",
                "empty.c",
                "-o",
                name,
                f"-Wl,-soname,{name}",
                "-Wl,--version-script=versions",
            ],
            cwd=folder,
            check=True,
        )
    return [str(folder / name) for name in names]
