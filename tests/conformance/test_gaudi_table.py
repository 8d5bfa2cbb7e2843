"""Gaudi's table of operators and dtypes: a fortieth of its cells in every mode, chosen by the turn."""

import pytest

from tests.conformance import gaudi, gaudi_cells
from tests.conformance.database import Case
from tests.conformance.test_conformance import check_family, run_part
from tests.rotating import shards


def test_the_table_holds_what_it_held():
    assert gaudi_cells.cells() == 2469
    cases = gaudi_cells.cases((gaudi_cells.EAGER,))
    # Both 8-bit floats of a cell; embedding and pixel_shuffle stand twice in the table.
    assert len(cases) == 2558


@pytest.mark.parametrize("by", ["variable", "turn"])
def test_each_fortieth_is_another(monkeypatch, by):
    monkeypatch.delenv("CONFORMANCE_FORTIETH", raising=False)
    cases = gaudi_cells.cases()
    found = []
    for k in range(40):
        if by == "variable":
            monkeypatch.setenv("CONFORMANCE_FORTIETH", str(k))
        else:
            monkeypatch.setattr(shards, "turn", lambda k=k: 1200 + k)
        found += gaudi.fortieth(cases)
    assert sorted(found) == sorted(cases)


def test_of_a_cell_in_no_graph_the_reason_is_that_of_a_sample_that_runs():
    """The last samples of as_strided, whose offsets count float32, are none in other dtypes: a view all the same."""
    assert gaudi.choose(Case.parse("gaudi_recipe:torch.as_strided:int64")) == "nothing runs on the device"


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    return run_part("gaudi", gaudi_cells.FAMILIES, tmp_path_factory.mktemp("build"))


@pytest.mark.parametrize("family", gaudi_cells.FAMILIES)
def test_family(ran, family):
    check_family(ran, family, 30)


def test_nothing_else_went_wrong(ran):
    assert ran.code == 0, (ran.output + ran.errors)[-6000:]
