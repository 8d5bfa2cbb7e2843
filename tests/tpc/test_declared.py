"""The names that the public header declares, and the page with the state of each."""

from collections import Counter

from commands import ROOT
from openhpu_tpc import declared, intrinsics
from openhpu_tpc.command import main
from tests.tpc import test_intrinsics, test_registers

MOST_OF_THEM = 1200


def test_the_list_of_what_is_tested():
    names = sorted({*test_intrinsics.NAMES, *test_registers.NAMES})
    assert intrinsics.tested() == frozenset(names), f"write the names into {intrinsics.TABLE.parent / 'tested.txt'}"


def test_each_name_has_a_state():
    states = Counter(declared.state(name).partition(":")[0] for name in declared.declared())
    assert states["implemented"] >= MOST_OF_THEM
    assert set(states) == {"implemented", "refused"}
    known = intrinsics.intrinsics()
    assert not [name for name in declared.declared() if name not in known]


def test_the_page_is_that_of_the_command(capsys):
    assert main(["intrinsics", "--page"]) == 0
    page = (ROOT / "docs" / "tpc-intrinsics.md").read_text()
    assert page == capsys.readouterr().out, "openhpu tpc intrinsics --page > docs/tpc-intrinsics.md"


def test_what_a_generation_lacks():
    assert declared.lacking("v_convert_int32_to_i16_b", "gaudi") == ""
    assert declared.lacking("v_convert_int32_to_i16_b", "gaudi2") == "gaudi2 has no v_convert_int32_to_i16_b; gaudi has"
    assert "an older processor has" in declared.lacking("v_i8_mac_b", "gaudi3")
    assert "from gaudi2 on" in declared.lacking("v_f16_add_b", "gaudi")
    assert declared.lacking("v_f32_add_b", "gaudi3") == ""
