"""The core's layers point one way: what a file of csrc includes lies in its own folder or below."""

import re

import pytest

from commands import ROOT

CSRC = ROOT / "csrc"
# From the bottom up. Folders of one line know nothing of each other.
LAYERS = (("device",), ("runtime",), ("graph",), ("modes",), ("ops",), ("distributed", "profiler"), ("python",))
LEVEL = {folder: level for level, folders in enumerate(LAYERS) for folder in folders}


def includes(path, brackets='""'):
    pattern = rf"^\s*#\s*include\s+{brackets[0]}([^{brackets[1]}]+){brackets[1]}"
    return re.findall(pattern, path.read_text(), re.MULTILINE)


def sources(folder):
    return sorted(path for kind in ("*.h", "*.cpp") for path in (CSRC / folder).rglob(kind))


def test_every_folder_has_its_layer():
    assert {path.name for path in CSRC.iterdir() if path.is_dir()} == set(LEVEL)


@pytest.mark.parametrize("folder", LEVEL)
def test_includes_point_down(folder):
    upward = [
        f"{path.relative_to(CSRC)} includes {name}"
        for path in sources(folder)
        for name in includes(path)
        if "/" in name and name.split("/")[0] != folder and LEVEL[name.split("/")[0]] >= LEVEL[folder]
    ]
    assert not upward


def test_the_device_knows_no_pytorch_and_only_bindings_know_python():
    for folder in LEVEL:
        for path in sources(folder):
            libraries = includes(path, "<>") + [name for name in includes(path) if "/" not in name]
            if folder == "device":
                assert not [name for name in libraries if re.match(r"ATen/|c10/|torch/|pybind11/", name)], path
            if folder != "python":
                assert "Python.h" not in libraries and not [n for n in libraries if n.startswith("pybind11/")], path


def test_headers_include_each_other_in_no_circle():
    seen = {}

    def visit(name, above):
        assert name not in above, f"{' -> '.join([*above, name])}"
        if name not in seen:
            seen[name] = True
            for other in includes(CSRC / name):
                if (CSRC / other).is_file():
                    visit(other, (*above, name))

    for folder in LEVEL:
        for path in sources(folder):
            if path.suffix == ".h":
                visit(str(path.relative_to(CSRC)), ())
