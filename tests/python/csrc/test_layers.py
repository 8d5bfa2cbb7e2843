"""The core's layers point one way: what a file of csrc includes, or only names, lies in its own folder or below."""

import graphlib
import re

import pytest

from commands import ROOT

CSRC = ROOT / "csrc"
# From the bottom up.
LAYERS = (
    "plugin",
    "device",
    "observe",
    "torch",
    "run",
    "recipes",
    "record",
    "call",
    "kernels",
    "distributed",
    "python",
)
LEVEL = {folder: level for level, folder in enumerate(LAYERS)}
# The headers of user operators, which their libraries include, too.
PUBLIC = "openhpu"


def includes(path, brackets='""'):
    pattern = rf"^\s*#\s*include\s+{brackets[0]}([^{brackets[1]}]+){brackets[1]}"
    return re.findall(pattern, path.read_text(), re.MULTILINE)


def sources(folder, csrc=CSRC):
    return sorted(path for kind in ("*.h", "*.cpp") for path in (csrc / folder).rglob(kind))


def classes(text):
    """The classes that a text only names, and those that it defines, outside of functions and classes."""
    text = re.sub(r"^#[ \t]*(?:else|elif).*?(?=^#[ \t]*endif)", "", text, flags=re.MULTILINE | re.DOTALL)
    skipped = r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|(?<!\w)'(?:\\.|[^'\\\n])'|^[ \t]*#(?:\\\n|[^\n])*"""
    text = re.sub(skipped, "", text, flags=re.MULTILINE | re.DOTALL)
    named = set()
    defined = set()
    scopes = []
    for before, mark in re.findall(r"([^{};]*)([{};])", text):
        words = " ".join(before.split())
        found = re.match(r"(?:template ?<.*> ?)?(?:class|struct|union) (?:alignas\(.*?\) ?)?(\w+)(.*)", words)
        if found and None not in scopes:
            name = "::".join([*scopes, found[1]])
            if mark == ";" and not found[2]:
                named.add(name)
            if mark == "{" and re.fullmatch(r"(?: final)?(?: ?:.*)?", found[2]):
                defined.add(name)
        if mark == "{":
            space = re.fullmatch(r"(?:inline )?namespace ?([\w:]*)", words)
            scopes.append(space[1] if space else None)
        elif mark == "}":
            scopes.pop()
    assert not scopes, "braces do not match"
    return named, defined


def upward(csrc, level):
    """Includes and declarations of a folder that point to a higher one, as texts."""
    defined = {}
    for folder in level:
        for path in sources(folder, csrc):
            if path.suffix == ".h":
                for name in classes(path.read_text())[1]:
                    defined.setdefault(name, set()).add(folder)
    found = []
    for folder in level:
        for path in sources(folder, csrc):
            place = path.relative_to(csrc)
            others = (
                (name, {name.split("/")[0]})
                for name in includes(path)
                if "/" in name and not name.startswith(f"{PUBLIC}/")
            )
            found += [f"{place} includes {name}" for name, homes in others if level[min(homes)] > level[folder]]
            named = sorted(classes(path.read_text())[0] & defined.keys())
            found += [
                f"{place} names {name}" for name in named if min(level[home] for home in defined[name]) > level[folder]
            ]
    return found


def test_every_folder_has_its_layer():
    assert {path.name for path in CSRC.iterdir() if path.is_dir()} == set(LEVEL)


def test_includes_and_declarations_point_down():
    assert upward(CSRC, LEVEL) == []


@pytest.mark.parametrize("folder", LEVEL)
def test_the_device_knows_no_pytorch_and_only_bindings_know_python(folder):
    for path in sources(folder):
        libraries = includes(path, "<>") + [name for name in includes(path) if "/" not in name]
        if folder == "device":
            assert not [name for name in libraries if re.match(r"ATen/|c10/|torch/|pybind11/", name)], path
        if folder != "python":
            assert "Python.h" not in libraries, path
            assert not [n for n in libraries if n.startswith("pybind11/")], path


def test_headers_include_each_other_in_no_circle():
    headers = [path for folder in LEVEL for path in sources(folder) if path.suffix == ".h"]
    graphlib.TopologicalSorter({str(path.relative_to(CSRC)): includes(path) for path in headers}).prepare()


@pytest.mark.parametrize("folder", LEVEL)
def test_a_folders_readme_names_its_files(folder):
    text = (CSRC / folder / "README.md").read_text()
    assert {path.stem for path in sources(folder)} <= set(re.findall(r"`([\w-]+)`", text))


def test_up_calls_are_set_in_one_place():
    """Each function of `Above` says who calls and who supplies it. The module sets them; there are no other hooks."""
    above = (CSRC / "Above.h").read_text()
    sets = (CSRC / "python/module.cpp").read_text()
    found = re.findall(r"((?: *//.*\n)+) .*?\(\*(\w+)\)\(", above)
    (given,) = re.findall(r"\babove = \{\n(.*?)\n  \};", sets, re.DOTALL)
    supplied = dict(re.split(r" =\s+", one, maxsplit=1) for one in re.split(r"^ {6}\.", given, flags=re.MULTILINE)[1:])
    assert {name for _, name in found} == set(supplied)
    for comment, name in found:
        told = re.search(r"Called by ([\w/]+), supplied by ([\w/]+):", comment)
        assert told, f"{name}: expected 'Called by folder/file, supplied by folder/file: ...'"
        caller, supplier = told.groups()
        assert LEVEL[caller.split("/")[0]] < LEVEL[supplier.split("/")[0]], name
        assert any(f"above.{name}(" in path.read_text() for path in CSRC.glob(f"{caller}.*")), name
        function = re.findall(r"(\w+)(?=\(|,\n|,?$)", supplied[name])[-1]
        assert any(re.search(rf"\b{function}\(", path.read_text()) for path in CSRC.glob(f"{supplier}.*")), name
    setters = {path.name: re.findall(r"\bset_\w*hooks?\b", path.read_text()) for path in CSRC.rglob("*.h")}
    assert not [name for name, hooks in setters.items() if hooks]
