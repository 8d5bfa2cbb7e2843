"""`gaudi-record` as a user calls it: a script that is killed, wrong arguments, and what it says."""

import json

import pytest

from openhpu_record import command
from openhpu_record.reading import Recording

KILLED = """\
import os
import signal
import torch

assert os.environ["OPENHPU_TEST"] == "1"
layer = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for step in range(4):
    layer(torch.ones(2, 4)).sum().backward()
    optimizer.step()
layer(torch.ones(2, 4))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_script_that_is_killed_leaves_what_was_recorded(tmp_path, monkeypatch, capfd):
    script = tmp_path / "train.py"
    script.write_text(KILLED)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENHPU_TEST", "1")
    code = command.main(["-o", "killed.zip", "--device", "cpu", "--steps", "1,4", str(script)])
    assert code == 128 + 9
    assert "ended by the signal SIGKILL" in capfd.readouterr().err
    with Recording(tmp_path / "killed.zip") as found:
        steps = [event["number"] for event in found.events("step")]
        operators = [event for event in found.events("operator")]
        assert found.manifest["end"] == {"code": -9, "why": "the signal SIGKILL"}
    assert steps == [0, 1, 2, 3]
    assert {event["step"] for event in operators} == {1, 4}
    assert {event["line"] for event in operators if event["step"] == 4} == {"train.py:11"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.py"], "there is no script 'missing.py'"),
        (["--steps", "1,x", "train.py"], "--steps is '1,x'; expected numbers"),
        (["--every", "0", "train.py"], "--every is 0"),
        (["--most-bytes", "0", "train.py"], "--most-bytes of 1 or more"),
        (["-o", "no/such/folder.zip", "train.py"], "there is no folder 'no/such'"),
        (["-o", "left.zip", "train.py"], "is left of an earlier recording"),
        (["probe", "--device", "cpu", "--modes", "lazy"], "--modes has 'lazy'; expected eager"),
        (["probe", "--minutes", "0"], "--minutes above 0"),
        (["pack", "nothing.part"], "there is no folder 'nothing.part'"),
        (["show", "train.py"], "train.py is not a recording"),
        (["show", "none.zip"], "there is no recording 'none.zip'"),
    ],
)
def test_wrong_arguments_end_with_2_and_a_reason(tmp_path, monkeypatch, capsys, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")
    (tmp_path / "left.zip.part").mkdir()
    assert command.main(arguments) == 2
    assert message in capsys.readouterr().err


def test_show_lists_everything_that_is_in_the_file(tmp_path, capsys):
    from openhpu_record.writing import Writer, pack

    writer = Writer(tmp_path / "a.part")
    writer.manifest(what="probe")
    writer.event("weather", sun=True)
    writer.close()
    pack(tmp_path / "a.part", tmp_path / "a.zip", {})
    assert command.main(["show", "--events", str(tmp_path / "a.zip")]) == 0
    said = capsys.readouterr().out
    assert json.dumps({"kind": "weather", "sun": True}) in said and "1 weather" in said
