"""Code lines of the repository, and its budget: `python -m commands.code_lines [--check]`.

A code line has code: no blank line, no comment, no docstring. Files are those that git tracks. The budget is in
pyproject.toml, `[tool.openhpu.code-lines]`; `make lint` checks it. An entry in docs/decisions.md gives the reason for a
larger one.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# What may stand in a C++ file beside code, and what only looks like it.
_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|//[^\n]*|/\*.*?\*/', re.DOTALL)
_NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING}
_DOCUMENTED = ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef


def of_python(text: str) -> int:
    """The code lines of a Python file."""
    documents: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            string = node.body[0]
            documents.update(range(string.lineno, (string.end_lineno or string.lineno) + 1))
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE and token.string.strip():
            lines.update(range(token.start[0], token.end[0] + 1))
    return len(lines - documents)


def of_cpp(text: str) -> int:
    """The code lines of a C++ file."""

    def blank(found: re.Match[str]) -> str:
        return found[0] if found[0][0] in "\"'" else "\n" * found[0].count("\n")

    return sum(1 for line in _COMMENT.sub(blank, text).splitlines() if line.strip())


def of_other(text: str) -> int:
    """The code lines of a file whose comments begin with # (make, shell, CMake), or of a page, which has none."""
    return sum(1 for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))


_KINDS = {
    ".py": of_python,
    ".pyi": of_python,
    ".cpp": of_cpp,
    ".h": of_cpp,
    ".js": of_cpp,
    ".css": of_cpp,
    ".sh": of_other,
    ".txt": of_other,
    ".html": of_other,
}
_NAMES = {"Makefile": of_other, "run": of_other}


def count(root: Path = ROOT) -> Counter[str]:
    """Code lines of each folder at the top of the checkout, by its name."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    lines: Counter[str] = Counter()
    for name in filter(None, listed.split("\0")):
        path = root / name
        kind = _NAMES.get(path.name) or _KINDS.get(path.suffix)
        if kind and path.is_file():
            lines[name.partition("/")[0]] += kind(path.read_text())
    return lines


def main(arguments: list[str]) -> int:
    lines = count()
    for folder, number in lines.most_common():
        print(f"{number:7,}  {folder}")
    found = {"product": lines["csrc"] + lines["src"], "repository": lines.total()}
    budget = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["openhpu"]["code-lines"]
    over = 0
    for what, number in found.items():
        print(f"{what}: {number:,} of {budget[what]:,}")
        over += number > budget[what]
    if over:
        print("too many code lines: take some out, or raise the budget in pyproject.toml with a reason in decisions.md")
    return int(bool(over) and "--check" in arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
