"""`openhpu replay` as a user calls it: its report, exit codes and wrong requests."""

import json

import pytest

from commands import ROOT
from openhpu_record import children
from openhpu_record.replay import command, report
from openhpu_record.writing import Writer, pack

FAULTY = ROOT / "recordings" / "rounded-sum.zip"


def test_the_report_of_a_recording_that_differs(tmp_path, capfd):
    verdicts = tmp_path / "verdicts.json"
    beside = ["--beside", str(ROOT / "recordings" / "script-lazy.zip")]
    assert command.main(["--json", str(verdicts), *beside, str(FAULTY)]) == 1
    said = capfd.readouterr().out
    rows = json.loads(verdicts.read_text())["rows"]
    differ = [row for row in rows if row["outcome"] == "different"]
    assert f"{len(rows)} calls in" in said and "rounded-sum.zip: probe of GAUDI2" in said
    operators = [line for line in said.splitlines() if line.endswith("calls differ")]
    assert {line.partition(":")[0] for line in operators} == {row["op"] for row in differ}
    assert f"  first:   call {differ[0]['id']} (eager, float32, {differ[0]['values']}): " in said
    assert "  largest: call" in said and "memory and graphs:" in said
    assert "  lazy memory MaxInUse: - there" not in said, "the recording beside has another mode"


def row(**about):
    base = {"id": 1, "op": "aten.add.Tensor", "family": "binary", "dtype": "int64", "values": "wide", "line": ""}
    return {**base, "mode": "eager", "outcome": "equal", "how": "", "largest": 0.0, "kind": "", **about}


def test_candidates_name_what_the_table_of_differences_has():
    rows = [
        row(outcome="different", kind="int64-arithmetic", how="3 of 9 elements", largest=1.0),
        row(outcome="different", kind="int64-arithmetic", how="", largest=0.5),
        row(outcome="different", kind="subnormal-as-zero"),
        row(outcome="refused there", kind="refused there", how="RuntimeError: no"),
        row(outcome="unknown", op="hpu.sun.default"),
    ]
    said = "\n".join([*report._operators(rows), *report._candidates(rows)])
    assert "int64-arithmetic (in the table): 2 calls" in said
    assert "subnormal-as-zero (candidate): 1 calls" in said
    assert "refused there aten.add.Tensor (candidate): 1 calls" in said
    assert "hpu.sun.default: unknown, 1 calls" in said
    assert report.differs(rows) and not report.differs([row(), row(outcome="unknown")])


def test_long_lists_say_how_much_is_left_out():
    rows = [row(outcome="different", op=f"aten.x{number}.default") for number in range(50)]
    assert "and 110 lines more" in report._operators(rows)[-1]


@pytest.fixture
def recording(tmp_path):
    """Makes an empty call of a mode."""

    def make(mode):
        writer = Writer(tmp_path / "a.part")
        writer.manifest(what="probe")
        writer.event("call", mode=mode)
        writer.close()
        return pack(tmp_path / "a.part", tmp_path / "a.zip", {})

    return make


@pytest.mark.parametrize(
    ("mode", "code", "message"),
    [
        ("eager", None, "the calls of eager mode took more than 5 s; --seconds gives them more"),
        ("lazy", -11, "the replay of lazy mode ended by -11"),
        ("sun", 0, "the mode 'sun' is not known"),
    ],
)
def test_processes_that_end_otherwise(recording, monkeypatch, capsys, mode, code, message):
    monkeypatch.setattr(children, "python", lambda *_: code)
    assert command.main(["--seconds", "5", str(recording(mode))]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["none.zip"], "there is no recording"), (["--seconds", "0", str(FAULTY)], "expected a number above 0")],
)
def test_wrong_requests(capsys, arguments, message):
    assert command.main(arguments) == 2
    assert message in capsys.readouterr().err
