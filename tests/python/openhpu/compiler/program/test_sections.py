"""Constant sections: one file for each content."""

import hashlib
import zlib

import pytest

from openhpu.compiler.program import sections


@pytest.fixture(autouse=True)
def off():
    yield
    sections.keep_in(None)


def test_without_a_folder_nothing_changes():
    description = {"constants": {1: b"abc"}}
    assert sections.as_files(description) is description
    assert sections.contents(b"abc") == b"abc"


@pytest.mark.parametrize("compressed", [False, True])
def test_contents_are_files_that_are_shared(tmp_path, compressed):
    sections.keep_in(tmp_path, compressed)
    first = sections.as_files({"constants": {1: b"abc" * 100, 4: b"d"}})["constants"]
    second = sections.as_files({"constants": {0: b"abc" * 100}})["constants"]
    assert second[0] == first[1]
    assert sorted(tmp_path.iterdir()) == sorted(first.values())
    for content, path in ((b"abc" * 100, first[1]), (b"d", first[4])):
        assert path.name.endswith(sections.SUFFIX)
        assert sections.contents(path) == content
        assert sections.digest(path) == sections.digest(content) == hashlib.sha256(content).hexdigest()
        data = path.read_bytes()
        assert (zlib.decompress(data) if compressed else data) == content


def test_a_file_in_the_place_of_the_folder(tmp_path):
    (tmp_path / "file").touch()
    sections.keep_in(tmp_path / "file")
    with pytest.raises(OSError, match="file"):
        sections.as_files({"constants": {1: b"abc"}})
