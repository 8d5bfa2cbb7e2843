"""The wheel, without building anything."""

from release import wheel


def test_cores_of_other_pytorches_are_forgotten(tmp_path):
    kept = tmp_path / "2.13" / "_C.other.so"
    for path in (kept, tmp_path / "2.13/_C.so", tmp_path / "2.14/interface.o"):
        path.parent.mkdir(exist_ok=True)
        path.touch()
    wheel.forget(tmp_path, ".so")
    assert [*tmp_path.glob("*/*")] == [kept]
