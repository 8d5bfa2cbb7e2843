"""Launchers: Open MPI's variables, and what torchrun says of a job that cannot begin."""

import os
import socket
import sys
from pathlib import Path

from commands import child
from tests.distributed.ranks import ROOT, free_port, open_mpi, run_job
from tests.processes import clean_environment

PATIENCE_S = 100.0  # much less than the time-outs of rendezvous, half an hour
FAREWELL_S = 20.0

JOB = """
import os
if os.environ.get("LOCAL_RANK") == "1" and {dies}:
    raise ImportError("no module of mine")
import torch
import torch.distributed as dist
dist.init_process_group()
dist.all_reduce(torch.ones(2, device="hpu"))
torch.hpu.synchronize()
dist.destroy_process_group()
"""


def ended(folder, dies=False):
    """How torchrun ended that runs `job.py`; nothing of it is left."""
    (folder / "job.py").write_text(JOB.format(dies=dies))
    paths = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(ROOT / "src"))))
    environment = clean_environment(folder) | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    environment["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), environment["PATH"]))
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = str(free_port() if dies else taken.getsockname()[1])
        done = child.run(
            [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", port, "job.py"],
            seconds=PATIENCE_S, cwd=folder, env=environment, farewell=FAREWELL_S,
        )  # fmt: skip
    assert not done.timed_out and not done.killed, f"{done.how}: {done.killed}\n{done.output}"
    assert done.code, done.output
    return done


def test_open_mpi():
    code = """
dist.all_reduce(x)
print("sum", x.tolist(), dist.get_world_size(), os.environ["HLS_MODULE_ID"], flush=True)
dist.destroy_process_group()
"""
    printed = run_job(code, launcher=open_mpi)
    for rank, text in enumerate(printed):
        assert f"sum [4.0, 4.0, 4.0, 4.0] 2 {rank}" in text


def test_torchrun_and_a_port_in_use(tmp_path):
    done = ended(tmp_path)
    assert "EADDRINUSE" in done.output and "port: " in done.output, done.output


def test_torchrun_and_a_rank_that_dies_at_import(tmp_path):
    done = ended(tmp_path, dies=True)
    assert "ImportError: no module of mine" in done.output
    assert "rank      : 1 (local_rank: 1)" in done.output.partition("Root Cause")[2]
