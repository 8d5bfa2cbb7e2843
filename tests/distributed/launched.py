"""Scripts that a launcher starts with two ranks, and what is wrong with them."""

import os
import socket
import sys
from pathlib import Path

from commands import child
from tests.distributed.ranks import free_port
from tests.processes import clean_environment

ROOT = Path(__file__).resolve().parents[2]
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


def ended(folder: Path, command: list[str], dies: bool = False, job: str = JOB, **variables: str) -> child.Ended:
    """How a launcher ended that runs `job.py`; nothing of it is left. PORT in the command is a port."""
    (folder / "job.py").write_text(job.replace("{dies}", str(dies)))
    paths = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(ROOT / "src"))))
    environment = clean_environment(folder) | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"} | variables
    environment["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), environment["PATH"]))
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        port = str(free_port() if dies else taken.getsockname()[1])
        done = child.run(
            [sys.executable, *(part.replace("PORT", port) for part in command)], seconds=PATIENCE_S, cwd=folder,
            env={name: value.replace("PORT", port) for name, value in environment.items()}, farewell=FAREWELL_S,
        )  # fmt: skip
    assert not done.timed_out and not done.killed, f"{done.how}: {done.killed}\n{done.output}"
    assert done.code, done.output
    return done


def check_port(done: child.Ended) -> None:
    assert "EADDRINUSE" in done.output and "port: " in done.output, done.output
