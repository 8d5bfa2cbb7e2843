"""Each row of the table of differences, at both levels."""

import re
from pathlib import Path

import pytest

import openhpu
from openhpu.observe import differences
from openhpu.observe.differences import DIFFERENCES
from openhpu.observe.insight import documents, page, sentences, summary
from tests.python.openhpu.observe.difference_examples import EXAMPLES

VARIABLE = re.compile(r"([A-Z0-9_]+)=(\d)(?: |$)")
rows = pytest.mark.parametrize("row", DIFFERENCES, ids=lambda row: row.kind)


@pytest.fixture
def example(script):
    """Run a row's example; keywords as of `script`."""

    def run(row, **more):
        one = EXAMPLES[row.kind]
        mode = {"PT_HPU_LAZY_MODE": str(int(one.mode == "lazy")), "OPENHPU_COMPILE": "off"}
        variables = mode | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "1"} | more
        return script(one.code, warnings="ignore", **variables)

    return run


def test_each_row_has_an_example():
    assert [row.kind for row in DIFFERENCES] == [*EXAMPLES]


@rows
def test_without_the_level_it_is_permitted_and_listed(row, example, tmp_path):
    folder = tmp_path / "documents"
    folder.mkdir()
    prints = EXAMPLES[row.kind].prints
    result = example(row, OPENHPU_REPORT_DATA=str(folder), fails=not prints)
    if not prints:
        assert re.search(row.error, result.err), result.err
        return
    assert result.out == prints[0]
    (document,) = documents.read_all(folder)
    found = document["differences"]
    assert [(one["kind"], one["count"]) for one in found] == ([(row.kind, 1)] if row.event == "difference" else [])
    assert all(one["line"] for one in found)
    listed = found or document["indices_out_of_range"]
    if listed:  # int64 results are not looked at here
        assert any(row.needs in line for line in sentences.needs_on_a_gaudi(document))
        assert row.needs in summary.text([document], 0)
        assert "To run this on a Gaudi" in page.text(document)


@rows
def test_with_the_level_it_is_as_on_a_gaudi(row, example):
    result = example(row, OPENHPU_STRICT="gaudi", fails=bool(row.error))
    if row.error:
        assert re.search(row.error, result.err), result.err
    else:
        assert result.out == EXAMPLES[row.kind].prints[-1]


@pytest.mark.parametrize("row", [row for row in DIFFERENCES if VARIABLE.search(row.needs)], ids=lambda row: row.kind)
def test_a_variable_that_is_set_wins(row, example):
    name, value = VARIABLE.search(row.needs).groups()
    assert example(row, OPENHPU_STRICT="gaudi", **{name: value}).out == EXAMPLES[row.kind].prints[0]


@pytest.mark.parametrize(
    ("variables", "refused"),
    [
        ({"PT_HPU_LAZY_MODE": "0"}, False),
        ({"PT_HPU_LAZY_MODE": "0", "OPENHPU_GENERATION": "gaudi"}, True),
        ({"PT_HPU_LAZY_MODE": "0", "PT_ENABLE_INT64_SUPPORT": "0"}, True),
        ({"OPENHPU_INT64": "exact"}, False),
    ],
)
def test_where_int64_is_narrow(variables, refused, example):
    row = differences.BY_KIND["int64-range"]
    result = example(row, OPENHPU_STRICT="gaudi", fails=refused, **variables)
    assert ("Error when trying to cast Long to Int" in result.err) == refused


def test_copies_are_looked_at_for_each_kind_of_source(script):
    """Contiguous and strided, pinned, empty and small: the same answer."""
    code = """
    import torch, habana_frameworks.torch
    wide = torch.tensor([[1, 2**31], [3, -(2**31) - 1]])
    for source in (wide, wide.t(), wide[:, 1], wide.pin_memory(), wide.expand(2, 2, 2)):
        try:
            source.to("hpu", non_blocking=True)
            print("copied")
        except RuntimeError as error:
            print("Long to Int" in str(error))
    inside = torch.tensor([2**31 - 1, -(2**31)])
    print(inside.to("hpu").tolist() == inside.tolist(), wide[:0].to("hpu").numel())
    print(wide.double().to("hpu")[0, 1].item())
    print(torch.tensor([float("nan"), float("-inf"), 3e38], dtype=torch.float64).to("hpu")[2].item())
    """
    lines = script(code, PT_HPU_LAZY_MODE="1", OPENHPU_STRICT="gaudi", OPENHPU_COMPILE="off").out.splitlines()
    assert lines == [*["True"] * 5, "True 0", "2147483648.0", "3e+38"]


@pytest.mark.parametrize("lazy", ["0", "1"])
def test_names_of_graphs_are_those_of_the_mode(script, lazy):
    code = """
    import torch, habana_frameworks.torch as ht
    print(*(hasattr(torch.hpu, name) for name in ("HPUGraph", "wrap_in_hpu_graph", "ModuleCacher", "synchronize")))
    """
    found = script(code, PT_HPU_LAZY_MODE=lazy, OPENHPU_STRICT="gaudi", OPENHPU_COMPILE="off").out
    assert found == ("True True True True" if lazy == "1" else "False False False True")


@pytest.mark.parametrize(
    ("strict", "permitted", "expected"),
    [
        ("", None, "NOTE"),
        ("", True, "PASS"),
        ("", False, "AS_GAUDI"),
        ("gaudi", None, "AS_GAUDI"),
        ("gaudi", True, "PASS"),
        ("gaudi", False, "AS_GAUDI"),
    ],
)
def test_the_level_of_a_difference(strict, permitted, expected, environment, hpu):
    """What a variable says that the script has set counts more than OPENHPU_STRICT."""
    environment(OPENHPU_STRICT=strict)
    assert differences.level("int64-range", permitted) == getattr(openhpu._C.Level, expected)


def test_names_that_are_no_differences(hpu):
    with pytest.raises(KeyError, match="no difference 'int64'; there are autoload, int64-range"):
        differences.as_gaudi("int64")
    with pytest.raises(ValueError, match="does not decide the difference autoload; it has: int64-range, float64-range"):
        openhpu._C.set_level("autoload", openhpu._C.Level.PASS)


def test_strictness_is_decided_in_one_place():
    """Nothing else in the package asks for OPENHPU_STRICT: it asks `differences`, by the name of a row."""
    # Settings choose the modules of a job before there are differences.
    asked = {"settings/access.py", "settings/chosen_devices.py", "observe/differences.py"}
    package = Path(openhpu.__file__).parent
    found = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if re.search(r"is_strict\(|get\(\"OPENHPU_STRICT\"\)", path.read_text())
    }
    assert found == asked
