"""What PyPI's torchvision, built for CUDA, needs to load beside PyTorch's CPU build: libraries with CUDA's names.

Nothing of them is called. A torchvision that loads as it is needs none.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path


def empty_libraries(extension: Path, folder: Path) -> list[str]:
    """Libraries with the names and symbols of CUDA's that `extension` was linked with; paths, in loading order."""
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
            ["g++", "-x", "c", "-shared", "-fPIC", "-w", "empty.c", "-o", name, f"-Wl,-soname,{name}",
             "-Wl,--version-script=versions"],
            cwd=folder, check=True,
        )  # fmt: skip
    return [str(folder / name) for name in names]
