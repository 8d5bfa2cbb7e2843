"""Traces of several ranks: a file each, collectives with their arguments, and one file of all."""

import json
import os

import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile

from tests import traces
from tests.distributed.ranks import ROOT, ranks
from tests.processes import run_python

SCRIPT = """
import torch
import torch.distributed as dist
from torch.profiler import ProfilerActivity, profile

dist.init_process_group("hccl")
x = torch.ones(1024, device="hpu")
dist.all_reduce(x)
dist.barrier()
with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.HPU]) as prof:
    for _ in range(3):
        dist.all_reduce(x)
        x.mul_(0.5)
    assert x[0].item() == 2
prof.export_chrome_trace(f"torch-{dist.get_rank()}.json")
dist.destroy_process_group()
"""


def test_traces_of_ranks(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "HABANA_PROFILE": "1"}
    run_python(["-m", "torch.distributed.run", "--nproc-per-node", "2", str(script)], tmp_path, environment)
    for rank in range(2):
        check_profile(traces.events_of(tmp_path / f"torch-{rank}.json"), rank)
    files = sorted(tmp_path.glob("default_profiling_rank?_*.hltv"))
    assert len(files) == 2
    merged = tmp_path / "merged.json"
    command = ["-m", "openhpu", "trace", "merge", *map(str, files), "-o", str(merged)]
    run_python(command, tmp_path, environment | {"HABANA_PROFILE": ""})
    check_merged(traces.events_of(merged))


def check_profile(events, rank):
    reduces = traces.named(events, "kernel", "hccl::allreduce")
    assert len(reduces) == 3
    waits = traces.named(events, "cuda_sync", "wait for hccl::allreduce")
    assert len(waits) == 3
    assert {e["tid"] for e in reduces}.isdisjoint(e["tid"] for e in waits)
    for reduce, wait in zip(reduces, waits, strict=True):
        assert wait["ts"] + wait["dur"] >= reduce["ts"] + reduce["dur"]  # nobody goes on before its end
        arguments = reduce["args"]
        assert arguments["bytes"] == 4096
        assert arguments["Collective name"] == "allreduce"
        assert (arguments["In msg nelems"], arguments["Out msg nelems"], arguments["Group size"]) == (1024, 1024, 2)
        assert arguments["dtype"] == "Float"
        assert json.loads(arguments["Process Group Ranks"]) == [0, 1]
    calls = traces.named(events, "cpu_op", "record_param_comms")
    assert {e["args"]["Rank"] for e in calls} == {rank}


def check_merged(events):
    """A collective ends on no rank before it began on all."""
    by_rank = [[e for e in traces.named(events, "kernel", "hccl::allreduce") if e["pid"] == p] for p in (0, 100)]
    for first, second in zip(*by_rank, strict=True):
        assert first["ts"] < second["ts"] + second["dur"]
        assert second["ts"] < first["ts"] + first["dur"]


@ranks(4)
def test_arguments_of_a_part_of_the_world(tmp_path):
    rank = dist.get_rank()
    part = [dist.new_group([0, 2]), dist.new_group([1, 3])][rank % 2]
    x = torch.ones(4, device="hpu")
    # The first of both sends one row to itself and three to the other, which sends one back and keeps three.
    sent, got = ([1, 3], [1, 1]) if rank < 2 else ([1, 3], [3, 3])
    out = torch.empty(sum(got), device="hpu")
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.HPU]) as prof:
        dist.all_to_all_single(out, x, got, sent, group=part)
        out.cpu()
    path = tmp_path / f"{rank}.json"
    prof.export_chrome_trace(str(path))
    (exchange,) = traces.named(traces.events_of(path), "kernel", "hccl::alltoall_base")
    arguments = exchange["args"]
    assert json.loads(arguments["Process Group Ranks"]) == [rank % 2, rank % 2 + 2]
    assert json.loads(arguments["In split size"]) == sent
    assert json.loads(arguments["Out split size"]) == got
