"""Gaudi's older names: a part of a script is traced, from start to stop."""

import pytest

from tests import traces

PART = """
import torch
import habana_frameworks.torch
{imports}
x = torch.ones(32, 32, device="hpu")
before = x.exp()
{start}
during = x @ x
{stop}
after = x.relu().cpu()
"""
NAMES = {
    "utils": (
        "from habana_frameworks.torch.utils.profiler import _setup_profiler, _start_profiler, _stop_profiler",
        "_setup_profiler(); _start_profiler()",
        "_stop_profiler()",
    ),
    "api": (
        "from habana_frameworks.torch.profiler import ProfilerApi",
        "ProfilerApi.setup_profiler(); ProfilerApi.start_profiler()",
        "ProfilerApi.stop_profiler()",
    ),
    "low overhead": (
        "from habana_frameworks.torch.low_overhead_profiler import profiler",
        "profiler.start()",
        "profiler.stop()",
    ),
}


def operators(path):
    return {e["name"] for e in traces.events_of(path) if e.get("cat") == "kernel"}


@pytest.mark.parametrize("names", list(NAMES))
def test_a_part_is_traced(script, tmp_path, names):
    imports, start, stop = NAMES[names]
    script(PART.format(imports=imports, start=start, stop=stop), PT_HPU_LAZY_MODE="0")
    (path,) = tmp_path.glob("default_profiling_*.hltv")
    assert operators(path) == {"aten::mm"}


def test_each_part_has_its_file(script, tmp_path):
    imports, start, stop = NAMES["low overhead"]
    more = "profiler.start(); x.exp(); profiler.flush(); x.neg(); profiler.stop()"
    script(PART.format(imports=imports, start=start, stop=stop) + more, PT_HPU_LAZY_MODE="0")
    paths = sorted(tmp_path.glob("default_profiling_*.hltv"), key=lambda path: (len(path.name), path.name))
    assert [operators(path) for path in paths] == [{"aten::mm"}, {"aten::exp"}, {"aten::neg"}]


@pytest.mark.parametrize(
    ("whole", "calls", "message"),
    [
        ("", "profiler.stop()", "the profiler was not started"),
        ("", "profiler.start(); profiler.start()", "the profiler was started already: stop it first"),
        ("1", "profiler.start()", "HABANA_PROFILE=1 traces the whole process already"),
    ],
)
def test_wrong_calls(script, whole, calls, message):
    code = f"import torch\nfrom habana_frameworks.torch.low_overhead_profiler import profiler\n{calls}"
    assert message in script(code, fails=True, HABANA_PROFILE=whole).last
