"""Results survive the end of a command, and a full disk."""

import json

from commands.kept import Kept, fingerprint


def test_those_of_another_fingerprint_are_dropped(tmp_path):
    Kept("it", "old", tmp_path).add("a", 1)
    kept = Kept("it", "new", tmp_path)
    assert kept.results == {}
    kept.add("b", 2)
    assert [json.loads(line)["key"] for line in kept.path.read_text().splitlines()] == ["b"]


def test_a_line_that_was_cut_off(tmp_path):
    kept = Kept("it", "f", tmp_path)
    kept.add("a", 1)
    with kept.path.open("a") as file:
        file.write('{"fingerprint": "f", "key": "b", "res')
    again = Kept("it", "f", tmp_path)
    assert again.results == {"a": 1}
    again.add("c", 3)
    assert Kept("it", "f", tmp_path).results == {"a": 1, "c": 3}


def test_a_fingerprint(tmp_path):
    (tmp_path / "folder").mkdir()
    file = tmp_path / "folder" / "file"
    file.write_text("one")
    paths = [tmp_path / "folder", tmp_path / "not there"]
    one = fingerprint(paths, mode="lazy")
    assert one == fingerprint(paths, mode="lazy") != fingerprint(paths, mode="eager")
    file.write_text("two")
    two = fingerprint(paths, mode="lazy")
    file.rename(file.with_name("other"))
    assert len({one, two, fingerprint(paths, mode="lazy")}) == 3
