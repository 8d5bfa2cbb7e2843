"""The formatter decides about line breaks. The tables that it leaves alone are listed here, each with its reason."""

import ast
import re
import subprocess

from commands import ROOT

# A file, and the first line of the statement or of the part that is left alone: the reason.
NUMBERS = "a table of numbers in columns"
UNFORMATTED = {
    ("benchmarks/products.py", "SHAPES = (  # rows, inner, columns"): NUMBERS,
    ("ecosystem/deepspeed/test_matrix.py", "TRIPS = ["): NUMBERS,
    ("src/openhpu/interface/gaudi_ops/quantized.py", "NF4 = ("): NUMBERS,
    ("tests/fuzz/programs.py", "self.tensors = ["): NUMBERS,
    ("tests/hpu/gaudi_ops/test_affine.py", "BOUNDS = {"): NUMBERS,
    ("tests/hpu/gaudi_ops/test_fp8.py", "SCALES = {"): NUMBERS,
    ("tests/hpu/test_compiled_same_bits.py", "DIVIDED = ("): NUMBERS,
    ("tests/hpu/test_errors.py", "MAKERS = ("): NUMBERS,
    ("tests/hpu/test_shape_cache.py", "layouts = ("): NUMBERS,
    ("tests/python/openhpu/compiler/program/test_seeded.py", "tensors = ["): NUMBERS,
}
_OFF = re.compile(r"#.*fmt: (?:skip|off)\s*$|^\s*// clang-format off")


def _files(*patterns):
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", *patterns], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    ).stdout
    return [ROOT / name for name in listed.split("\0") if name and name != "tests/python/commands/test_format.py"]


def test_what_is_not_formatted_is_listed():
    found = set()
    for path in _files("*.py", "*.pyi", "*.cpp", "*.h"):
        lines = path.read_text().splitlines()
        for number, line in enumerate(lines):
            if not _OFF.search(line):
                continue
            first = number
            if path.suffix.startswith(".py"):
                statements = [n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.stmt)]
                around = [n for n in statements if n.lineno <= number + 1 <= (n.end_lineno or 0)]
                first = min((n.lineno - 1 for n in around[-1:]), default=number)
            name = str(path.relative_to(ROOT))
            key = next((key for key in UNFORMATTED if key[0] == name and lines[first].strip().startswith(key[1])), None)
            found.add(key or (name, lines[first].strip()))
    assert found == set(UNFORMATTED)


def test_no_line_of_cpp_is_longer_than_120_columns():
    long = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in _files("*.cpp", "*.h")
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > 120
    ]
    assert not long
