"""Where the package's C++ headers and libraries would be."""

from pathlib import Path

import habana_frameworks.torch as package


def get_include_dir() -> str:
    """The folder `include` beside the package's modules, as a path. Custom kernels for a Gaudi have no use here, so
    that it may be missing."""
    return str(Path(package.__file__).parent / "include")


def get_lib_dir() -> str:
    """The folder `lib` beside the package's modules, as a path. It may be missing."""
    return str(Path(package.__file__).parent / "lib")
