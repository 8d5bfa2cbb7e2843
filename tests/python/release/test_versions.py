"""`make versions`, without building anything: what it makes of outputs."""

from functools import partial

import pytest

from release import versions
from release.environments import StepError


def test_the_totals_of_a_suite_and_of_the_cpp_tests():
    said = (
        "FAILED hpu: tests/hpu/test_copies.py::test_c\nFAILED tests/hpu/test_views.py::test_a - assert 1\n"
        "ERROR tests/hpu/test_b.py\n3 passed, 3 failed, 1 skipped\n"
    )
    assert versions.outcome("hpu", said, 1) == {
        "passed": 3,
        "failed": 3,
        "skipped": 1,
        "names": ["tests/hpu/test_b.py", "tests/hpu/test_copies.py::test_c", "tests/hpu/test_views.py::test_a"],
    }
    plain, sanitized = "100% tests passed, 0 tests failed out of 40\n", "98% tests passed, 1 tests failed out of 40\n"
    assert versions.outcome("C++ tests", plain + sanitized, 1) == {
        "passed": 79,
        "failed": 1,
        "skipped": 0,
        "names": [],
    }
    newer = "100% tests passed out of 72\n\nTotal Test time (real) = 2.74 sec\n"
    assert versions.outcome("C++ tests", newer + newer, 0)["passed"] == 144
    assert versions.outcome("C++ tests", "it does not compile", 1)["failed"] == 1
    with pytest.raises(versions.StepError, match="no total"):
        versions.outcome("C++ tests", "", 0)
    with pytest.raises(StepError, match="hpu: its output has no total"):
        versions.outcome("hpu", "Segmentation fault", -11)


def test_results_stay_when_another_version_is_built_and_not_when_a_source_changes(tmp_path, monkeypatch):
    sources, results = tmp_path / "sources", tmp_path / "kept"
    sources.mkdir()
    (sources / "device.py").write_text("1")
    monkeypatch.setattr(versions, "SOURCES", [sources])
    monkeypatch.setattr(versions, "Kept", partial(versions.Kept, folder=results))
    version = versions.VERSIONS[0]
    versions.kept(version).add("hpu", {"passed": 3})
    for built in ("cores/2.15/interface.o", "cores/2.15/_C.so", "_machine.so"):
        (sources / built).parent.mkdir(parents=True, exist_ok=True)
        (sources / built).write_text(built)
    assert versions.kept(version).results == {"hpu": {"passed": 3}}
    (sources / "device.py").write_text("2")
    assert versions.kept(version).results == {}
