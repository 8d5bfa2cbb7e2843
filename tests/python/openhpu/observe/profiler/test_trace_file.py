import json

import pytest

from openhpu import cli
from openhpu.observe.profiler import perf_tool, trace_file
from openhpu.observe.profiler.merge import merge
from openhpu.observe.profiler.reading import TraceError, read
from openhpu.observe.profiler.summary import summary
from openhpu.observe.profiler.trace_file import Recorded
from tests import traces

BASE = 1_700_000_000_000_000_000


def recorded(base=BASE):
    """Two commands, the second a graph of two operators; a wait; and two compilations that overlap."""
    t = [base + 1000 * n for n in range(40)]
    return Recorded.of(
        (
            [
                ("aten::mm", "kernel", 0, 0, 1, 0, 0, 7, t[1], t[2], t[2], t[10], '/a b/"x".py:3', []),
                (
                    "graph",
                    "graph",
                    0,
                    0,
                    2,
                    0,
                    2,
                    7,
                    t[3],
                    t[4],
                    t[20],
                    t[30],
                    None,
                    [("aten::add", t[20], t[25], None), ("aten::mul", t[25], t[35], None)],
                ),
                ("aten::copy_", "d2h", 0, 0, 3, 64, 0, 7, t[5], t[6], t[29], t[31], None, []),
            ],
            [
                ("hpuSynchronize", "", 7, t[7], t[31], None),
                ("hpuCompile", "a", -1, t[1], t[9], None),
                ("hpuCompile", "b", -1, t[2], t[12], None),
            ],
            0,
            t[0],
            t[39],
        )
    )


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "one.hltv"
    trace_file.write(path, recorded(), "python train.py")
    return path


def test_what_is_written_is_valid(file):
    events = traces.events_of(file)
    mm, graph = traces.named(events, "kernel")
    assert (mm["ts"], mm["dur"], mm["args"]["line"]) == (2, 8, '/a b/"x".py:3')
    assert [e["name"] for e in traces.named(events, "hpu_op")] == ["aten::add", "aten::mul"]
    assert all(traces.inside(e, graph) for e in traces.named(events, "hpu_op"))
    (copy,) = traces.named(events, "gpu_memcpy", "Memcpy DtoH")
    assert (copy["ts"], copy["args"]["bytes"]) == (30, 64)  # it began when the graph had ended


def test_an_unwritable_place_leaves_nothing(tmp_path):
    (tmp_path / "no").touch()
    with pytest.raises(OSError, match=str(tmp_path / "no" / "trace.json")):
        trace_file.write(tmp_path / "no" / "trace.json", recorded(), "")
    assert [path.name for path in tmp_path.iterdir()] == ["no"]


def test_the_summary(file):
    text = summary(read(file))
    assert "HPU 0: 3 commands in 0.029 ms, busy 0.019 ms (66%)" in text
    assert "idle     0.010 ms at     0.008 ms, between aten::mm and graph" in text
    assert "  aten::add" in text
    assert "hpuSynchronize" in text


def test_a_summary_of_nothing():
    assert "no event of a device" in summary({"traceEvents": []})


def test_merged_ranks_are_on_one_clock(tmp_path):
    paths = []
    for rank in (1, 0):
        path = tmp_path / f"rank{rank}.json"
        trace_file.write(path, recorded(BASE + 5_000 * rank), "python train.py", rank)
        paths.append(path)
    document = merge(paths)
    traces.check(document)
    events = document["traceEvents"]
    assert {e["pid"]: e["ts"] for e in traces.named(events, "kernel", "aten::mm")} == {0: 2, 100: 7}
    assert len({e["id"] for e in events if e["ph"] == "s"}) == 6
    names = [e["args"]["name"] for e in events if e["name"] == "process_name"]
    assert sorted(n for n in names if "HPU" in n) == ["rank 0: HPU 0", "rank 1: HPU 0"]


def test_the_command(file, tmp_path, capsys):
    assert cli.main(["trace", str(file)]) == 0
    assert "HPU 0: 3 commands" in capsys.readouterr().out
    merged = tmp_path / "all.json"
    assert cli.main(["trace", "merge", str(file), str(file), "-o", str(merged)]) == 0
    traces.check(json.loads(merged.read_text()))


@pytest.mark.parametrize("arguments", [["--trace"], []])
def test_gaudis_command(file, tmp_path, capsys, arguments):
    assert perf_tool.main([*arguments, str(file)]) == 0
    assert capsys.readouterr().out.splitlines() == summary(read(file)).splitlines()
    wrong = tmp_path / "wrong.json"
    wrong.write_text('{"traceEvents": [{"ph": "X", "cat": "kernel", "pid": 0, "args": 3}]}')
    for bad, message in ((wrong, "not one of a trace"), (tmp_path / "none.json", "can't be read as a trace")):
        assert perf_tool.main([*arguments, str(bad)]) == 2
        assert message in capsys.readouterr().err
    with pytest.raises(SystemExit):
        perf_tool.main([])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.json"], "can't be read as a trace"),
        (["merge", "missing.json"], "-o with the file"),
        (["a", "b"], "give one trace"),
    ],
)
def test_wrong_arguments(arguments, message, capsys):
    assert cli.main(["trace", *arguments]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"traceEvents": 1}', "{"])
def test_what_is_no_trace_is_named(tmp_path, text):
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(TraceError, match=r"x\.json"):
        read(path)
