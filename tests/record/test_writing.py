"""A recording is kept whatever happens to the process and the disk, and a damaged one is an error."""

import json
import zipfile

import pytest
import torch

from openhpu_record import command
from openhpu_record.errors import RecordError
from openhpu_record.reading import Recording
from openhpu_record.writing import EVENTS, FORMAT, MANIFEST, Writer, pack


@pytest.fixture
def recording(tmp_path):
    """A small one, as a file."""
    writer = Writer(tmp_path / "a.zip.part")
    writer.manifest(what="script")
    for number in range(3):
        writer.event("step", number=number, kept=writer.keep(f"t{number}", torch.arange(number + 1)))
    writer.close()
    return pack(tmp_path / "a.zip.part", tmp_path / "a.zip", {"code": 0, "why": ""})


def changed(path, name, change):
    """The file with another content of one of its members; None leaves it out."""
    with zipfile.ZipFile(path) as archive:
        members = {one: archive.read(one) for one in archive.namelist()}
    members[name] = change(members[name])
    target = path.with_name("changed.zip")
    with zipfile.ZipFile(target, "w") as archive:
        for one, data in members.items():
            if data is not None:
                archive.writestr(one, data)
    return target


def test_what_was_written_is_read(recording):
    with Recording(recording) as found:
        assert [event["number"] for event in found.events("step")] == [0, 1, 2]
        assert [found.kept(event["kept"]).tolist() for event in found.events("step")] == [[0], [0, 1], [0, 1, 2]]
        assert found.manifest["end"] == {"code": 0, "why": ""}
    assert not recording.with_name("a.zip.part").exists()


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.99])
def test_a_truncated_file_is_an_error(recording, share):
    data = recording.read_bytes()
    recording.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(RecordError, match="truncated"):
        Recording(recording)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (MANIFEST, lambda data: json.dumps({"format": FORMAT + 1}).encode(), "install a newer openhpu-record"),
        (MANIFEST, lambda data: b"{}", "names no format"),
        (MANIFEST, lambda data: b"[", "is not JSON"),
        (MANIFEST, lambda data: None, "is missing"),
        (EVENTS, lambda data: data[:-5], "line 3 of events.jsonl is not an event"),
        (EVENTS, lambda data: None, "is missing"),
        ("tensors/0000.safetensors", lambda data: data[:-1], "truncated"),
        ("tensors/0000.safetensors", lambda data: None, "is missing"),
    ],
)
def test_damage_is_an_error_that_names_the_file(recording, name, change, message):
    with pytest.raises(RecordError, match=message), Recording(changed(recording, name, change)) as found:
        [found.kept(event["kept"]) for event in found.events("step")]


def test_events_of_another_version_are_passed_over(recording):
    path = changed(recording, EVENTS, lambda data: b'{"kind":"weather"}\n' + data)
    with Recording(path) as found:
        assert len([*found.events("step")]) == 3


def test_a_line_that_was_cut_short_is_left_out_of_the_file(tmp_path):
    writer = Writer(tmp_path / "b.part")
    writer.manifest(what="script")
    writer.event("step", number=0)
    writer.close()
    with open(tmp_path / "b.part" / EVENTS, "ab") as file:
        file.write(b'{"kind":"st')  # the process was killed here
    assert command.main(["pack", str(tmp_path / "b.part"), "-o", str(tmp_path / "b.zip")]) == 0
    with Recording(tmp_path / "b.zip") as found:
        assert [event["number"] for event in found.all_events()] == [0]
        assert found.manifest["end"]["why"] == "it was packed later"


FULL = """
import resource
from pathlib import Path
import torch
from openhpu_record.writing import Writer, pack
from openhpu_record.reading import Recording

writer = Writer(Path("full.part"))
writer.manifest(what="script")
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, -1))  # the disk has room for so many bytes of a file
for number in range(100):
    writer.event("step", number=number, text="x" * 90)
writer.keep("late", torch.zeros(5))
writer.close()
resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))
assert "can't be written: File too large" in writer.stopped or "only a part" in writer.stopped, writer.stopped
pack(Path("full.part"), Path("full.zip"), {})
with Recording("full.zip") as found:
    print([event["number"] for event in found.all_events()])
"""


def test_a_disk_that_fills_up_ends_the_recording_and_not_the_script(script):
    found = script(FULL)
    assert json.loads(found.out) == list(range(len(json.loads(found.out)))) and len(json.loads(found.out)) > 10
    assert found.err.count("nothing more is recorded, and the script goes on") == 1


def test_the_limit_of_bytes_ends_the_recording(tmp_path, capsys):
    writer = Writer(tmp_path / "c.part", most_bytes=500)
    for number in range(100):
        writer.event("step", number=number)
    writer.close()
    assert "500 bytes" in writer.stopped and writer.bytes < 600
    assert capsys.readouterr().err.count("--most-bytes") == 1


def test_a_file_that_cannot_be_packed_leaves_the_folder(tmp_path):
    writer = Writer(tmp_path / "d.part")
    writer.manifest(what="script")
    writer.close()
    (tmp_path / "d.zip.partial").mkdir()
    with pytest.raises(RecordError, match="gaudi-record pack"):
        pack(tmp_path / "d.part", tmp_path / "d.zip", {})
    assert (tmp_path / "d.part" / EVENTS).exists()
