"""Size of the repository in syntax: `python -m commands.code_size [--files N] [--at COMMIT] [--check] [--record]`.

Line breaks do not count. Python is counted in nodes of the syntax tree, without the nodes that say how a name is used
and without docstrings. C++ (and what else has C's tokens) is counted in tokens, without comments. Data that is written
by hand is counted in words. Python's syntax tree differs between versions, so that only Python 3.11 counts.

The ceilings are in pyproject.toml, `[tool.openhpu.code-size]`. `--check` is a part of a release; `make lint` does not
run it. It also names the functions that are too long, which a test finds at each change. `--record` adds a row to the
table of docs/code-size.md.
"""

from __future__ import annotations

import argparse
import ast
import datetime
import io
import re
import subprocess
import sys
import tarfile
import tokenize
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "code-size.md"
VERSION = (3, 11)
# Of a file; a denser one is worth a look.
DENSE = 14
# The most nodes of a function, with the functions in it. Tests and scripts of lanes may be longer: they are lists.
LONGEST = 300
_MAY_BE_LONG = {"tests", "lanes"}
# Copies of tables that others wrote.
_NOT_OURS = {"gaudi-native-ops.csv", "gaudi-operator-support.csv"}
_MADE = {"operators.pyi"}  # by `make docs`
_DATA = {".tsv", ".csv", ".toml", ".json", ".j2"}
_TOKENS = {".cpp", ".h", ".js", ".css"}
_NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING}
_DOCUMENTED = ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef
_COMMENT = r"//[^\n]*|/\*.*?\*/"
_STRING = r'R"\((?:.*?)\)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
_TOKEN = re.compile(
    rf"(?P<comment>{_COMMENT})|{_STRING}|0[xX][\w.']+|\d[\w.']*|\w+|::|->|<<=?|>>=?|[-+*/%&|^=!<>]=|&&|\|\||\+\+|--|\S",
    re.DOTALL,
)


@dataclass
class Size:
    """Of a file or of a group of files."""

    nodes: int = 0  # of Python's syntax trees
    tokens: int = 0  # of C++
    words: int = 0  # of data that is written by hand

    def __iadd__(self, other: Size) -> Size:
        self.nodes += other.nodes
        self.tokens += other.tokens
        self.words += other.words
        return self


def _docstrings(tree: ast.AST) -> Iterator[ast.stmt]:
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            yield node.body[0]


def _nodes(tree: ast.AST) -> int:
    counted = sum(1 for node in ast.walk(tree) if not isinstance(node, ast.expr_context))
    return counted - sum(len(list(ast.walk(string))) for string in _docstrings(tree))


def python_nodes(text: str) -> int:
    """The nodes of a Python file's syntax tree, without contexts (Load, Store, Del) and without docstrings."""
    return _nodes(ast.parse(text))


def long_functions(texts: dict[str, str]) -> list[str]:
    """A sentence for each function that has more than LONGEST nodes, by the files' names and texts."""
    distributions = _distributions(texts)
    said = []
    for name, text in texts.items():
        if not name.endswith(".py") or group_of(name, distributions) in _MAY_BE_LONG:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (number := _nodes(node)) > LONGEST:
                said.append(f"{name}:{node.lineno}: {node.name} has {number} nodes; a function has at most {LONGEST}")
    return said


def cpp_tokens(text: str) -> int:
    """The tokens of a C++ file, without comments."""
    return sum(1 for found in _TOKEN.finditer(text) if found["comment"] is None)


def words(text: str) -> int:
    return len(text.split())


def tokens_a_line(name: str, text: str) -> float:
    """How dense a file of code is: its tokens by the lines that have some. 0 for data and for an empty file."""
    used: dict[int, int] = defaultdict(int)
    if name.endswith((".py", ".pyi")):
        strings = {line for s in _docstrings(ast.parse(text)) for line in range(s.lineno, (s.end_lineno or 0) + 1)}
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type not in _NO_CODE and token.string and token.start[0] not in strings:
                used[token.start[0]] += 1
    elif Path(name).suffix in _TOKENS:
        line, at = 1, 0
        for found in _TOKEN.finditer(text):
            line += text.count("\n", at, found.start())
            at = found.start()
            if found["comment"] is None:
                used[line] += 1
    return sum(used.values()) / len(used) if used else 0.0


def size_of(name: str, text: str) -> Size:
    suffix = Path(name).suffix
    if Path(name).name in _MADE:
        return Size()
    if suffix in (".py", ".pyi"):
        return Size(nodes=python_nodes(text))
    if suffix in _TOKENS:
        return Size(tokens=cpp_tokens(text))
    if suffix in _DATA and Path(name).name not in _NOT_OURS:
        return Size(words=words(text))
    return Size()


def group_of(name: str, distributions: set[str]) -> str:
    """The row of a file: csrc, src, a distribution by its folder, tests, lanes (ecosystem), or tools for all else."""
    folder = name.partition("/")[0]
    if folder in ("csrc", "src", "tests") or folder in distributions:
        return folder
    return "lanes" if folder == "ecosystem" else "tools"


def files(commit: str | None = None) -> dict[str, str]:
    """The text of each file that git tracks, by its name: of the checkout, or of a commit."""
    wanted = {".py", ".pyi", *_DATA, *_TOKENS}
    if commit is None:
        listed = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        paths = {name: ROOT / name for name in listed.split("\0") if Path(name).suffix in wanted}
        return {name: path.read_text() for name, path in paths.items() if path.is_file()}
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, capture_output=True, check=True, timeout=120).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as members:
        found = {}
        for member in members:
            content = members.extractfile(member)
            if content is not None and Path(member.name).suffix in wanted:
                found[member.name] = content.read().decode()
        return found


def _distributions(texts: Iterable[str]) -> set[str]:
    """The folders that have a pyproject.toml."""
    return {name.partition("/")[0] for name in texts if name.count("/") == 1 and name.endswith("/pyproject.toml")}


def groups(texts: dict[str, str]) -> dict[str, Size]:
    """The size of each row, in the order in which the table shows them."""
    distributions = _distributions(texts)
    sizes: dict[str, Size] = {
        name: Size() for name in ("csrc", "src", *sorted(distributions), "tests", "lanes", "tools")
    }
    for name, text in texts.items():
        sizes[group_of(name, distributions)] += size_of(name, text)
    return sizes


def ceilings() -> dict[str, dict[str, int]]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["openhpu"]["code-size"]


def over(sizes: dict[str, Size], allowed: dict[str, dict[str, int]]) -> list[str]:
    """A sentence for each ceiling that is passed, and for each row without one."""
    said = []
    for name, size in sizes.items():
        if name not in allowed:
            said.append(f"{name} has no ceiling in pyproject.toml, [tool.openhpu.code-size]: add a row")
            continue
        for unit, ceiling in allowed[name].items():
            if (number := getattr(size, unit)) > ceiling:
                said.append(f"{name} has {number:,} {unit}; the ceiling in pyproject.toml is {ceiling:,}")
    return said


def row(sizes: dict[str, Size], commit: str) -> str:
    """A line of the table of docs/code-size.md: the date of the commit, the commit, and the sizes."""
    date = subprocess.run(
        ["git", "show", "-s", "--format=%cs", commit], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    ).stdout.strip()
    others = Size()
    for name, size in sizes.items():
        if name not in ("csrc", "src", "tests", "lanes", "tools"):
            others += size
    cells = [
        f"{sizes['csrc'].tokens:,}",
        f"{sizes['src'].nodes:,}",
        f"{sizes['src'].words:,}",
        f"{others.nodes:,}",
        f"{sizes['tests'].nodes:,}",
        f"{sizes['tests'].tokens:,}",
        f"{sizes['lanes'].nodes:,}",
        f"{sizes['tools'].nodes:,}",
    ]
    return f"| {date or datetime.date.today()} | {commit} | {' | '.join(cells)} |\n"


def _print_files(texts: dict[str, str], most: int) -> None:
    """The largest files, and the densest."""
    sizes = {name: size_of(name, text) for name, text in texts.items()}
    code = {name: size.nodes + size.tokens for name, size in sizes.items()}
    for name in sorted(code, key=lambda name: -code[name])[:most]:
        print(f"large  {code[name]:7,}  {name}")
    density = {name: tokens_a_line(name, text) for name, text in texts.items()}
    for name in sorted(density, key=lambda name: -density[name])[:most]:
        print(f"dense  {density[name]:7.1f}  {name}{'  (worth a look)' if density[name] > DENSE else ''}")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m commands.code_size", description=__doc__)
    parser.add_argument("--files", type=int, default=0, metavar="N", help="also the N largest and N densest files")
    parser.add_argument("--at", metavar="COMMIT", help="of a commit instead of the checkout")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a ceiling is passed")
    parser.add_argument("--record", action="store_true", help="add a row to docs/code-size.md; needs --at")
    options = parser.parse_args(arguments)
    if sys.version_info[:2] != VERSION:
        running, wanted = (".".join(map(str, version)) for version in (sys.version_info[:2], VERSION))
        parser.error(f"this is Python {running}, whose syntax trees have other nodes: run it with Python {wanted}")
    if options.record and options.at is None:
        parser.error("--record needs --at COMMIT: the table names what was counted")
    texts = files(options.at)
    sizes = groups(texts)
    print(f"{'':18}{'nodes':>10}{'tokens':>10}{'words':>10}   (Python, C++, data)")
    for name, size in sizes.items():
        print(f"{name:18}{size.nodes:10,}{size.tokens:10,}{size.words:10,}")
    if options.files:
        _print_files(texts, options.files)
    if options.record:
        PAGE.write_text(PAGE.read_text() + row(sizes, options.at))
    said = [*over(sizes, ceilings()), *long_functions(texts)] if options.check else []
    for sentence in said:
        print(sentence)
    return int(bool(said))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
