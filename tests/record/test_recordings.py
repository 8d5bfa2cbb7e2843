"""The recordings of the folder `recordings/`: those of this device agree with it, and faults on purpose are found."""

import json
from pathlib import Path

import pytest

from commands import ROOT
from openhpu_record.reading import Recording
from openhpu_record.replay.comparing import FOUND
from openhpu_record.replay.running import replayed

# The device tells of indices out of range, which the probe has on purpose.
pytestmark = pytest.mark.filterwarnings("ignore:.*out of range:UserWarning")
FOLDER = ROOT / "recordings"
ROWS = [line.split("\t") for line in (FOLDER / "manifest.tsv").read_text().splitlines()[1:]]
IN_LAZY = """
import json
from openhpu_record.replay.running import replayed
from openhpu_record.reading import Recording

found = {}
for path in PATHS:
    with Recording(path) as recording:
        found[path] = replayed(recording, "hpu", "lazy")
print(json.dumps(found))
"""


def modes(path):
    with Recording(path) as recording:
        return {call["mode"] for call in recording.events("call")}


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """The verdicts on the calls of a recording in eager mode, by its name."""
    found = {}
    for name, *_ in ROWS:
        with Recording(FOLDER / name) as recording:
            found[name] = replayed(recording, "hpu", "eager")
    return found


def test_the_manifest_names_every_file_and_they_are_small():
    files = sorted(FOLDER.glob("*.zip"))
    assert {path.name for path in files} == {name for name, *_ in ROWS}
    assert sum(path.stat().st_size for path in files) < 1_000_000


@pytest.mark.parametrize("name", [name for name, kind, *_ in ROWS if kind == "own"])
def test_recordings_of_this_device_agree(rows, name):
    assert {row["outcome"] for row in rows[name]} - {"equal", "close", "both refuse", "unchecked"} == set()
    compared = [row for row in rows[name] if row["outcome"] in ("equal", "close")]
    assert len(compared) >= 0.9 * len(rows[name])


def test_those_of_lazy_mode_agree_in_lazy_mode(script):
    paths = [str(FOLDER / name) for name, *_ in ROWS if "lazy" in modes(FOLDER / name)]
    assert len(paths) == 2
    code = IN_LAZY.replace("PATHS", repr(paths))
    found = json.loads(script(code, PT_HPU_LAZY_MODE="1", OPENHPU_COMPILE="off").out)
    for path, rows in found.items():
        assert len(rows) > 15, path
        assert {row["outcome"] for row in rows} <= {"equal", "close", "both refuse", "unchecked"}, Path(path).name


@pytest.mark.parametrize(("name", "found"), [(row[0], row[4]) for row in ROWS if row[1] == "faulty"])
def test_faults_on_purpose_are_found_and_nothing_else(rows, name, found):
    differ = [row for row in rows[name] if row["outcome"] in FOUND]
    assert len(differ) >= 3
    if found.startswith("aten."):
        assert all(row["op"].startswith(f"{found}.") for row in differ)
    else:
        assert all(row["values"] == found for row in differ)
        assert len({row["op"] for row in differ}) > 5


def test_a_second_pass_of_lazy_mode_is_in_its_recording():
    with Recording(FOLDER / "script-lazy.zip") as recording:
        (second,) = recording.events("second_pass")
    assert second["outcome"] == "equal" and second["results"] > 5


def test_the_border_of_a_graph_is_in_its_recording():
    with Recording(FOLDER / "borders.zip") as recording:
        (border,) = recording.events("border")
    assert border["inputs"][0]["numbers"]["max"] == 2.0
    assert recording.manifest["depth"] == "borders"
