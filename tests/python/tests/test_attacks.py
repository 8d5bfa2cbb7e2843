"""Each attack of tests/attacks is refused, and would succeed without what refuses it."""

import pytest

from commands import ROOT

NAMES = sorted(path.stem for path in (ROOT / "tests" / "attacks").glob("[!_]*.py"))


def run(script, name, *without):
    code = f"import tests.attacks.__main__ as a; a.main({', '.join(map(repr, (name, *without)))})"
    result = script(code, warnings="ignore", PYTHONPATH=f"{ROOT / 'src'}:{ROOT}")
    if "skipped: " in result.out:
        pytest.skip(result.out.partition("skipped: ")[2])
    return result.out.splitlines()[-1].partition(":")[0]


@pytest.mark.parametrize("name", NAMES)
def test_an_attack_is_refused(script, name):
    assert " must " in (ROOT / "tests" / "attacks" / f"{name}.py").read_text().split('"""')[1]
    assert run(script, name) == "refused"
    assert run(script, name, "without") == "succeeded"
