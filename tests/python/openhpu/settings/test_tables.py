"""The reader of tables, and each table of the project: what is wrong with a row is said with file, line and column."""

import json
import marshal
import re
import subprocess
import sys
import tomllib
from typing import Literal, NamedTuple

import pytest

from commands import ROOT
from ecosystem import install
from ecosystem.transformers import models
from openhpu.integration import fallback
from openhpu.integration.migration import cuda_names
from openhpu.interface import autocast_lists
from openhpu.interface.gaudi_ops import not_built, registry
from openhpu.observe import differences
from openhpu.observe.insight import advice
from openhpu.observe.smi import query
from openhpu.settings import tables, variables
from openhpu_port import table as port
from openhpu_tpc import declared, intrinsics
from tests.python.openhpu import private_names

SRC = ROOT / "src" / "openhpu"
TABLES = {
    SRC / "settings/variables.toml": variables.Variable,
    SRC / "observe/differences.toml": differences.Difference,
    SRC / "observe/insight/advice.toml": advice.Text,
    SRC / "observe/smi/fields.tsv": query.Field,
    SRC / "observe/smi/sections.tsv": query.Line,
    SRC / "interface/autocast.tsv": autocast_lists.PolicyList,
    SRC / "interface/gaudi_ops/operators.tsv": registry.OperatorRow,
    SRC / "interface/gaudi_ops/not_built.tsv": not_built.NotBuilt,
    SRC / "integration/data/cuda-names.tsv": cuda_names.CudaName,
    SRC / "integration/data/gaudi-native-ops.csv": fallback.Native,
    SRC / "integration/data/gaudi-native-ops-added.tsv": fallback.Added,
    SRC / "integration/data/gaudi-operator-support.csv": fallback.Supported,
    port.TABLE: port.PortedName,
    intrinsics.TABLE: intrinsics.Row,
    declared.ERRORS: declared.Error,
    private_names.TABLE: private_names.Line,
    install.SHARED: install.Shared,
    models.TABLE: models.Row,
}
# `openhpu-record` needs no OpenHPU, so it reads its tables itself (tests/record).
OF_RECORD = {ROOT / "recordings/manifest.tsv", ROOT / "openhpu-record/src/openhpu_record/data/probe.tsv"}
every_table = pytest.mark.parametrize("path", TABLES, ids=lambda path: path.name)


def needed(row):
    """The last column that must have a value."""
    return [name for name in row._fields if name not in row._field_defaults][-1]


def broken(path, row):
    """Ways to break the last row of a table: what is broken, the text, and the column that the message names."""
    text = path.read_text(encoding="utf-8")
    before, last = text.rstrip("\n").rsplit("\n", 1)
    column = needed(row)
    if path.suffix == ".toml":
        start = text.rindex("\n[") + 1
        name = text[start:].partition("\n")[0]
        keys = list(tomllib.loads(text).values())[-1]

        def with_row(**changes):
            lines = [f"{key} = {json.dumps(value)}" for key, value in (keys | changes).items() if value is not None]
            return "\n".join([text[:start] + name, *lines]) + "\n"

        yield "an unknown key", with_row(foo="x"), "foo"
        yield "another type", with_row(**{column: 5}), column
        yield "no value", with_row(**{column: None}), column
        yield "a row twice", f"{text}\n{name}\n", r"\d+"
        return
    separator = "," if path.suffix == ".csv" else "\t"
    head = next(line for line in text.splitlines() if line and line[0] != "#").split(separator)
    cells = last.split(separator)
    cells += [""] * (len(head) - len(cells))
    place = head.index(column)
    yield "a cell too many", f"{before}\n{separator.join([*cells, 'x'])}\n", str(len(head) + 1)
    yield "no value", f"{before}\n{separator.join([*cells[:place], '', *cells[place + 1 :]])}\n", column
    wrong = separator.join(["foo", *head[1:]])
    yield "another head", text.replace(separator.join(head), wrong, 1), "1"


@every_table
def test_a_broken_row_is_named_with_file_line_and_column(path, tmp_path):
    row = TABLES[path]
    for what, text, column in broken(path, row):
        copy = tmp_path / path.name
        copy.write_text(text, encoding="utf-8")
        with pytest.raises(tables.TableError) as raised:
            tables.read(copy, row)
        found = re.match(rf"{re.escape(str(copy))}, line (\d+), column {column}: .", str(raised.value))
        assert found, (what, str(raised.value))
        lines = text.splitlines()
        line = lines[int(found[1]) - 1]
        first = next(line for line in lines if line and line[0] != "#")
        last = [line for line in lines if line.startswith("[")][-1] if path.suffix == ".toml" else lines[-1]
        expected = first if what == "another head" else last
        assert line == expected or (path.suffix == ".toml" and line.startswith(column)), (what, line)


def test_each_table_has_the_reader():
    """A file of rows that git tracks is in the table above."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.tsv", "*.csv"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    found = {ROOT / name for name in listed.split() if (ROOT / name).exists()}
    assert found == OF_RECORD | {path for path in TABLES if path.suffix != ".toml"}


class Row(NamedTuple):
    name: str
    how: Literal["same", "other"]
    count: int = 1
    words: tuple[str, ...] = ()
    share: float | None = None
    on: bool = False


def read(tmp_path, text, suffix=".tsv", unique=None):
    path = tmp_path / f"a{suffix}"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return tables.read(path, Row, unique)


def test_a_table_of_lines(tmp_path):
    text = "# about it\n\nname\tcount\thow\twords\tshare\ton\na\t3\tsame\tx y\t0.5\n# b\nb\t\tother\n"
    assert read(tmp_path, text).rows == (Row("a", "same", 3, ("x", "y"), 0.5), Row("b", "other"))
    assert tables.text_of(Row, read(tmp_path, text)).splitlines()[0] == "name\thow\tcount\twords\tshare\ton"


def test_a_table_in_toml(tmp_path):
    text = '# about it\n[a]\nhow = "same"\ncount = 3\nwords = ["x", ""]\nshare = 1\non = true\n\n'
    text += '["b c"]\nhow = """\nother"""\n'
    assert read(tmp_path, text, ".toml").rows == (Row("a", "same", 3, ("x", ""), 1, True), Row("b c", "other"))


def test_a_text_of_several_lines_is_one_line(tmp_path):
    text = "['a*']\nhow = '''\nsame'''\n\n[b]\nhow = \"other\"\n"
    assert [row.name for row in read(tmp_path, text, ".toml")] == ["a*", "b"]
    text = '[a]\nname = """\nOne sentence.\nAnother."""\n'

    class Text(NamedTuple):
        key: str
        name: str

    (tmp_path / "b.toml").write_text(text)
    assert tables.read(tmp_path / "b.toml", Text).rows == (Text("a", "One sentence. Another."),)


HEAD = "name\thow\tcount\twords\tshare\ton\n"
WRONG = {
    "a choice": (f"{HEAD}a\tsame\nb\tnone\n", ".tsv", r"line 3, column how: is 'none'; expected one of same, other"),
    "a number": (f"{HEAD}a\tsame\tx\n", ".tsv", r"line 2, column count: is 'x'; expected a number \(int\)"),
    "a share": (f"{HEAD}a\tsame\t\t\tx\n", ".tsv", r"line 2, column share: is 'x'; expected a number \(float\)"),
    "yes or no": (f"{HEAD}a\tsame\t\t\t\t1\n", ".tsv", r"line 2, column on: .* belongs into a \.toml"),
    "a row twice": (f"{HEAD}a\tsame\n# more\na\tother\n", ".tsv", r"line 4, column name: 'a' stands in a row before"),
    "no head": ("", ".tsv", r"line 1, column 1: the head has ''"),
    "a column twice": ("name\tname\n", ".tsv", r"line 1, column 2: the head has 'name'; expected once each"),
    "a column that lacks": ("name\thow\n", ".tsv", r"line 1, column count: is not in the head"),
    "no text": (b"name\thow\nb\xff\tsame\n", ".tsv", r"line 2, column 2: is not UTF-8"),
    "a choice in toml": ('[a]\nhow = "same"\n[b]\nhow = "none"\n', ".toml", r"line 4, column how: is 'none'"),
    "a list": ('[a]\nhow = "same"\nwords = "x"\n', ".toml", r"line 3, column words: .* expected a list of texts"),
    "a truth for a number": ('[a]\nhow = "same"\ncount = true\n', ".toml", r"line 3, column count: is True; .* int"),
    "no row": ('how = "same"\n', ".toml", r"line 1, column how: stands outside of a row; expected \[name\]"),
    "no toml": ('[a]\nhow = "same\n', ".toml", r"line 2, column \d+: "),
    "no end": ('[a]\nhow = """same\n', ".toml", r"line 3, column 1: "),
    "behind a text": ('[a]\nhow = """\nother\n[b]"""\n', ".toml", r"line 2, column how: is 'other \[b\]'"),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_is_wrong_is_said(what, tmp_path):
    text, suffix, message = WRONG[what]
    with pytest.raises(tables.TableError, match=rf"/a\{suffix}, {message}"):
        read(tmp_path, text, suffix, unique="name")


def test_what_only_the_code_knows_is_said_with_its_place(tmp_path):
    """A default that its row does not allow, a schema that PyTorch cannot parse, a function that does not exist."""
    path = tmp_path / "variables.toml"
    path.write_text(
        '[A]\nkind = "int"\nlow = 1\nmeaning = "x"\n\n[B]\nkind = "int"\nlow = 1\ndefault = "0"\nmeaning = "x"\n'
    )
    with pytest.raises(tables.TableError, match=r"variables\.toml, line 9, column default: .*B='0' is not valid"):
        variables.read(tables.read(path, variables.Variable))


@pytest.mark.parametrize(
    ("row", "column"),
    [
        ("f(Tensr x) -> Tensor\tnorms.rms_norm\tmul\n", "schema"),
        ("f(Tensor x) -> Tensor\tnorms.none\tmul\n", "function"),
        ("f(Tensor x) -> Tensor\tnone.rms_norm\tmul\n", "function"),
    ],
)
def test_an_operator_that_cannot_be_registered(row, column, tmp_path, monkeypatch, hpu):
    path = tmp_path / "operators.tsv"
    path.write_text(
        f"schema\tfunction\tmade_of\tlowered\tbinding\ng(Tensor x) -> Tensor\tindexing.identity\tclone\n{row}"
    )
    found = tables.read(path, registry.OperatorRow)
    monkeypatch.setattr(registry, "table", lambda: found)
    with pytest.raises(tables.TableError, match=rf"operators\.tsv, line 3, column {column}: "):
        registry.implementation(found.rows[1])
        registry.parsed(found.rows[1])


def test_rows_are_kept_beside_byte_code_until_the_file_changes(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    path = tmp_path / "some.tsv"
    path.write_text("name\tcount\na\t1\n")

    class Counted(NamedTuple):
        name: str
        count: int

    class Named(NamedTuple):
        name: str
        count: str

    assert tables.read(path, Counted).rows == (("a", 1),)
    (kept,) = (tmp_path / "__pycache__").iterdir()
    key, _ = marshal.loads(kept.read_bytes())
    kept.write_bytes(marshal.dumps((key, [("kept", 2)])))
    assert tables.read(path, Counted).rows == (("kept", 2),)
    assert tables.read(path, Named).rows == (("a", "1"),)  # other columns
    path.write_text("name\tcount\nlonger\t3\n")
    assert tables.read(path, Named).rows == (("longer", "3"),)
    kept.write_bytes(b"no rows")
    assert tables.read(path, Named).rows == (("longer", "3"),)
    path.write_text("name\tcount\nbroken\tx\n")
    for _ in range(2):
        with pytest.raises(tables.TableError, match="expected a number"):
            tables.read(path, Counted)


def test_rows_are_kept_nowhere_where_python_keeps_no_byte_code(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path = tmp_path / "some.tsv"
    path.write_text("name\na\n")

    class Named(NamedTuple):
        name: str

    assert tables.read(path, Named).rows == (("a",),)
    assert [each.name for each in tmp_path.iterdir()] == ["some.tsv"]


def test_what_is_computed_from_tables_is_kept_until_a_source_changes(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    code, table = tmp_path / "code.py", tmp_path / "some.tsv"
    code.write_text("1")
    table.write_text("1")
    calls = []

    def compute():
        calls.append(None)
        return {"calls": len(calls)}, [("a", 1.5, None)]

    def derived(more=None):
        (found, rows) = tables.derived(code, [table, code], compute, more)
        assert rows == [("a", 1.5, None)]
        return found["calls"]

    assert [derived(), derived()] == [1, 1]
    assert [derived("gaudi2"), derived("gaudi2"), derived("gaudi3")] == [2, 2, 3]
    for number, source in enumerate((table, code), start=4):
        source.write_text("another length")
        assert [derived("gaudi3"), derived("gaudi3")] == [number, number]
    table.unlink()
    with pytest.raises(OSError, match=r"some\.tsv"):
        derived("gaudi3")
