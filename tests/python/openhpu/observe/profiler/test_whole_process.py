"""HABANA_PROFILE=1: what a process leaves, whatever its script does."""

import json

import pytest

from tests import traces

SCRIPT = """
import torch
import habana_frameworks.torch
x = torch.ones(32, 32, device="hpu")
for _ in range(2):
    value = (x @ x).relu().sum().item()
print(value)
"""


def written(tmp_path, pattern="default_profiling_*.hltv"):
    (path,) = tmp_path.glob(pattern)
    return traces.events_of(path)


@pytest.mark.parametrize("lazy", ["0", "1"])
def test_a_script_is_traced_as_it_is(script, tmp_path, lazy):
    result = script(SCRIPT, HABANA_PROFILE="1", PT_HPU_LAZY_MODE=lazy, OPENHPU_COMPILE="off")
    assert float(result.out) == 32**3
    assert "commands in" in result.err
    events = written(tmp_path)
    names = {e["name"] for e in events if e["ph"] == "X" and e["pid"] == 0}
    assert {"aten::mm", "aten::relu", "aten::sum"} <= names
    if lazy == "1":
        graph = traces.named(events, "kernel", "graph")[-1]
        assert any(traces.inside(e, graph) for e in traces.named(events, "hpu_op", "aten::mm"))
        assert traces.named(events, "cuda_runtime", "hpuFlush")


@pytest.mark.parametrize("value", ["", "0", "profile_api_light"])
def test_nothing_is_traced_otherwise(script, tmp_path, value):
    assert script(SCRIPT, HABANA_PROFILE=value).err == ""
    assert not list(tmp_path.glob("*.hltv"))


def test_a_process_without_the_device_leaves_nothing(script, tmp_path):
    result = script("import torch, habana_frameworks.torch; print(torch.ones(2).sum().item())", HABANA_PROFILE="1")
    assert result.out == "2.0"
    assert not list(tmp_path.glob("*.hltv"))


ENDINGS = {
    "an error": "raise ValueError('mine')",
    "os._exit": "import os, sys; sys.stdout.flush(); os._exit(0)",
    "forked children": "import os\npid = os.fork()\nif not pid: os._exit(0)\nos.waitpid(pid, 0)",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_trace_is_there_however_the_script_ends(script, tmp_path, ending):
    fails = ending == "an error"
    result = script(SCRIPT + ENDINGS[ending], HABANA_PROFILE="1", fails=fails)
    assert ("ValueError: mine" in result.err) == fails
    assert traces.named(written(tmp_path), "kernel", "aten::mm")


def test_the_configuration_is_followed(script, tmp_path):
    from openhpu.observe.profiler.config import Config

    config = tmp_path / "prof.json"
    config.write_text(json.dumps(Config(session="mine", output=str(tmp_path / "out"), first=2, last=3)._asdict()))
    script(SCRIPT, HABANA_PROFILE="1", HABANA_PROF_CONFIG=str(config), RANK="3", PT_HPU_LAZY_MODE="0")
    events = written(tmp_path / "out", "mine_rank3_*.hltv")
    assert {e["args"]["correlation"] for e in events if e.get("cat") in traces.DEVICE} == {2, 3}


def test_torch_profiler_works_beside_it(script, tmp_path):
    code = """
        import torch
        import habana_frameworks.torch
        from torch.profiler import profile, ProfilerActivity
        x = torch.ones(32, 32, device="hpu")
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.HPU]) as prof:
            (x @ x).cpu()
        prof.export_chrome_trace("inner.json")
        x.add_(1).cpu()
        """
    script(code, HABANA_PROFILE="1", PT_HPU_LAZY_MODE="0")
    inner = traces.events_of(tmp_path / "inner.json")
    outer = written(tmp_path)
    assert [e["name"] for e in traces.named(inner, "kernel")] == ["aten::mm"]
    assert {"aten::mm", "aten::add_"} <= {e["name"] for e in traces.named(outer, "kernel")}
