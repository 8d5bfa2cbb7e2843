"""Programs that read traces: Holistic Trace Analysis and TensorBoard's profiler plugin."""

import json

import pytest

from commands import ROOT
from tests import traces
from tests.processes import clean_environment, run_file

READERS = ROOT / "build" / "ecosystem" / "readers" / "site-packages"

TRAINING = """
import torch
import habana_frameworks.torch.core as htcore
from torch import nn
from torch.profiler import ProfilerActivity, profile, schedule, tensorboard_trace_handler

torch.manual_seed(0)
model = nn.TransformerEncoderLayer(32, 2, 64, batch_first=True).to("hpu")
optimizer = torch.optim.AdamW(model.parameters())
x = torch.randn(4, 16, 32)
with profile(
    activities=[ProfilerActivity.CPU, ProfilerActivity.HPU], schedule=schedule(wait=3, warmup=1, active=3),
    record_shapes=True, on_trace_ready=tensorboard_trace_handler(".", worker_name="worker"),
) as prof:
    for _ in range(7):
        optimizer.zero_grad()
        loss = model(x.to("hpu")).square().mean()
        loss.backward()
        htcore.mark_step()
        optimizer.step()
        htcore.mark_step()
        loss.item()
        prof.step()
"""

HTA = """
import json, os, sys
sys.path.append(os.environ["READERS"])
from hta.trace_analysis import TraceAnalysis
analysis = TraceAnalysis(trace_files={0: os.environ["TRACE"]}, trace_dir=".")
times = analysis.get_temporal_breakdown(visualize=False)
idle = analysis.get_idle_time_breakdown(visualize=False)[0]
kinds, kernels = analysis.get_gpu_kernel_breakdown(visualize=False)
print(json.dumps({
    "times": json.loads(times.to_json(orient="records"))[0],
    "idle": dict(zip(idle["idle_category"], idle["idle_time_ratio"])),
    "kinds": list(kinds["kernel_type"]),
    "kernels": list(kernels["name"]),
}))
"""

TENSORBOARD = """
import json, os, sys
sys.path.append(os.environ["READERS"])
from torch_tb_profiler.io import Cache
from torch_tb_profiler.profiler import RunLoader

def main():
    (profile,) = RunLoader("run", ".", Cache()).load().profiles.values()
    times = profile.overview["performance"][0]
    print(json.dumps({
        "views": [view.display_name for view in profile.views],
        "times": {row["name"]: row["value"] for row in times["children"]},
        "kernels": [row[0] for row in profile.kernel_table["data"]["rows"]],
    }))

if __name__ == "__main__":
    main()
"""


@pytest.fixture(params=["0", "1"], ids=["eager", "lazy"])
def trace(request, tmp_path):
    """The trace of a training, in a folder of its own."""
    run(TRAINING, tmp_path, PT_HPU_LAZY_MODE=request.param, OPENHPU_COMPILE="off")
    (path,) = tmp_path.glob("worker.*.json")
    traces.events_of(path)
    return path


def run(code, folder, **environment):
    environment = clean_environment(folder, PYTHONWARNINGS="ignore", READERS=str(READERS), **environment)
    return run_file(code, folder, environment, fails=False, timeout=300, fresh=True).out


def test_holistic_trace_analysis(trace):
    found = json.loads(run(HTA, trace.parent, TRACE=str(trace)).splitlines()[-1])
    times = found["times"]
    assert times["compute_time(us)"] > 0
    assert times["idle_time(us)"] > 0
    shares = [times[f"{name}_pctg"] for name in ("idle_time", "compute_time", "non_compute_time")]
    assert sum(shares) == pytest.approx(100, abs=0.1)
    assert "host_wait" in found["idle"]  # which it tells from the others by the arrows
    assert found["idle"].keys() <= {"host_wait", "kernel_wait", "other"}
    assert {"COMPUTATION", "MEMORY"} <= set(found["kinds"])
    assert "graph" in found["kernels"] or "aten::addmm" in found["kernels"]


def test_tensorboard_shows_the_device(trace):
    found = json.loads(run(TENSORBOARD, trace.parent).splitlines()[-1])
    assert {"Overview", "Operator", "Kernel", "Trace"} <= set(found["views"])
    assert found["times"]["Kernel"] > 0
    assert found["times"]["Memcpy"] > 0
    assert found["kernels"]
