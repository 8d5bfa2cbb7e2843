"""A prediction in the report of `openhpu run`, in the trace of HABANA_PROFILE=1, and in `openhpu predict --trace`."""

import json
from itertools import pairwise

import pytest

from commands import ROOT
from openhpu_predict import command
from openhpu_predict.tracks import ENGINES
from tests.predict.training_script import training_script
from tests.processes import clean_environment, run_python

ENTRIES = "[openhpu.sections]\npredict = openhpu_predict.section:Section\n"
SCRIPT = training_script(
    6,
    before='fast = torch.compile(lambda x: x + 1, backend="eager")\n',
    within="    fast(torch.ones(2))\n",
    after="""modes = torch.utils._python_dispatch._get_current_dispatch_mode_stack()
print("graphs", torch._dynamo.utils.counters["stats"]["unique_graphs"])
print("hooks", len(torch.nn.modules.module._global_forward_hooks), "modes", len(modes))
""",
)


@pytest.fixture
def run(tmp_path):
    """Run a Python command in a folder with `script.py`, where the distribution is installed."""
    (tmp_path / "script.py").write_text(SCRIPT)
    info = tmp_path / "installed" / "openhpu_predict-0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: openhpu-predict\nVersion: 0\n")
    (info / "entry_points.txt").write_text(ENTRIES)
    path = ":".join(map(str, (info.parent, ROOT / "openhpu-predict" / "src", ROOT / "src")))

    def start(*arguments, **variables):
        more = {"PYTHONPATH": path, "PT_HPU_LAZY_MODE": "1", "OPENHPU_COMPILE": "off", **variables}
        return run_python([*arguments], tmp_path, clean_environment(tmp_path, **more), fails=None)

    return start


def check(events, title="Gaudi 3, predicted"):
    """The track has a lane for each engine, and no two events of a lane overlap."""
    process = next(e["pid"] for e in events if e["ph"] == "M" and e["args"].get("name") == title)
    ours = [e for e in events if e["pid"] == process]
    assert [e["args"]["name"] for e in ours if e["name"] == "thread_name"] == list(ENGINES)
    spans = sorted((e["tid"], e["ts"], e["dur"]) for e in ours if e["ph"] == "X")
    assert {ENGINES[lane] for lane, _, _ in spans} >= {"MME", "TPC", "host"}
    for (lane, begin, length), (other, following, _) in pairwise(spans):
        assert lane != other or begin + length <= following + 1e-3
    return min(begin for _, begin, _ in spans)


def test_a_report_and_a_trace(run, tmp_path):
    options = ("--predict", "gaudi3", "--json", "--report", "page.html")
    done = run("-m", "openhpu", "run", *options, "script.py", HABANA_PROFILE="1")
    assert done.code == 0, done.err
    assert "Gaudi 3, predicted:\n  Step " in done.err
    (section,) = json.loads(done.out.splitlines()[-1])["sections"]
    assert section["title"] == "Gaudi 3, predicted"
    assert dict(section["facts"])["Launches"] == "3"
    tables = {title: rows for title, _, rows in section["tables"]}
    assert tables["Layers that cost most"]
    assert tables["Lines that cost most"][0][-1].startswith("script.py:")
    assert tables["Reads that cut the step"][0][:2] == ["script.py:12", 1]
    page = (tmp_path / "page.html").read_text()
    assert "<h2>Gaudi 3, predicted</h2>" in page
    assert "MME <small>" in page
    # The script is alone again after the steps that were recorded, and its lines are its own.
    assert "graphs 1\nhooks 0 modes 0" in done.out
    assert "recording.py" not in done.err
    (trace,) = tmp_path.glob("*.hltv")
    assert check(json.loads(trace.read_text())["traceEvents"]) > 0


def test_the_command_writes_a_trace(run, tmp_path):
    code = "import sys; from openhpu_predict.command import main; sys.exit(main(sys.argv[1:]))"
    done = run("-c", code, "--trace", "step.json", "script.py")
    assert done.code == 0, done.err
    assert check(json.loads((tmp_path / "step.json").read_text())["traceEvents"]) > 0


def test_a_trace_into_a_folder_that_is_missing(run, capsys):
    assert command.main(["--trace", "none/step.json", __file__]) == 2
    assert "there is no folder 'none' to write into" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name, device, message",
    [
        ("openhpu.sections", "gaudi9", "there is no device 'gaudi9'"),
        ("openhpu.others", "gaudi3", "needs the distribution openhpu-predict, which is not installed"),
    ],
)
def test_a_request_that_cannot_be_met(run, tmp_path, name, device, message):
    entries = next(tmp_path.glob("installed/*/entry_points.txt"))
    entries.write_text(ENTRIES.replace("openhpu.sections", name))
    done = run("-m", "openhpu", "run", "--predict", device, "script.py")
    assert done.code == 2
    assert message in done.err
    assert "loss" not in done.out
