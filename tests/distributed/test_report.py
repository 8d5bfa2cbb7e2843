"""`openhpu run -- torchrun ...`: each rank's collectives, and those of all ranks together."""

import json
import os

from tests.distributed.ranks import ROOT
from tests.processes import run_python

SCRIPT = """
import os, time
import torch
import torch.distributed as dist

dist.init_process_group("hccl")
x = torch.ones(1024, device="hpu")
store = dist.distributed_c10d._get_default_store()
for step in range(3):
    if dist.get_rank() == 0:
        store.set(f"{step}", "")
    else:
        store.get(f"{step}")  # which waits until the other rank is here
        time.sleep(0.2)
    dist.all_reduce(x)
    x[0].item()
dist.destroy_process_group()
"""


def test_collectives_by_line_and_who_came_last(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    command = ["-m", "openhpu", "run", "--json", "--report", "page.html", "--"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    run = run_python([*command, "torchrun", "--nproc-per-node", "2", str(script)], tmp_path, environment)
    first = json.loads(run.out)
    documents = [first, *first["other_processes"]]
    assert [document["process"]["rank"] for document in documents] == [0, 1]
    for document in documents:
        (row,) = document["collectives"]
        assert (row["op"], row["line"], row["count"], row["bytes"]) == ("hccl::allreduce", 15, 3, 3 * 4096)
    assert "--- all ranks" in run.err
    assert "script.py:15: hccl::allreduce, 3 times, 12.0 KiB" in run.err
    assert "of it for rank 1" in run.err  # the one that slept
    assert "<h2>Collectives</h2>" in (tmp_path / "page-rank0.html").read_text()
