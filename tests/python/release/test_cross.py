"""`make aarch64` and the wheel for 64-bit Arm, without building anything."""

import pytest

from release import aarch64, cross, smoke, wheel
from release.environments import StepError


def test_what_is_missing_ends_in_a_command():
    assert cross.missing("sh") is None
    said = cross.missing("sh", "no-such-compiler")
    assert said == "no-such-compiler not found: apt install g++-aarch64-linux-gnu qemu-user"


def test_another_python_than_debians_is_refused(monkeypatch):
    monkeypatch.setattr(cross, "PYTHON", "3.10")
    with pytest.raises(StepError, match=r"is 3\.10: make an environment with `make PYTHON=python3\.10`"):
        cross.system(None)


def test_cores_of_other_pytorches_are_forgotten(tmp_path):
    kept = tmp_path / "2.13" / "_C.other.so"
    for path in (kept, tmp_path / "2.13/_C.so", tmp_path / "2.14/interface.o"):
        path.parent.mkdir(exist_ok=True)
        path.touch()
    wheel.forget(tmp_path, ".so")
    assert [*tmp_path.glob("*/*")] == [kept]


def test_each_row_names_a_function_or_tests():
    for name, row in aarch64.ROWS.items():
        words = row.arguments
        if "release.smoke" in words:
            assert callable(getattr(smoke, words[words.index("release.smoke") + 1])), name
        else:
            (file,) = (word.partition("::")[0] for word in words if word.startswith("tests/"))
            assert (aarch64.ROOT / file).is_file(), name
