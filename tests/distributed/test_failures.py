"""What goes wrong in one rank ends the others with a message, soon; no process and no module is left behind."""

import re
import signal
import sys
import time

import pytest

from commands import child
from tests.distributed.ranks import PATIENCE_S, ROOT, Job, run_job


def test_a_rank_that_is_killed():
    code = "if rank == 1: os.kill(os.getpid(), signal.SIGKILL)\ndist.all_reduce(x)\nprint(x)"
    printed = run_job(code, [1, -signal.SIGKILL])
    assert "hccl::allreduce failed on rank 0 of 2" in printed[0]
    assert 'issued at "<string>", line 15.' in printed[0]


def test_a_rank_that_raises():
    printed = run_job("if rank == 1: raise ValueError('mine')\ndist.all_reduce(x)\nprint(x)", [1, 1])
    assert "ValueError: mine" in printed[1]
    assert "hccl::allreduce failed on rank 0 of 2" in printed[0]


def test_a_rank_that_raises_with_collectives_in_flight():
    code = "if rank == 1:\n    dist.recv(x, 0)\n    raise ValueError('mine')\ntime.sleep(1)\nraise ValueError('too')"
    assert "ValueError: mine" in run_job(code, [1, 1])[1]


@pytest.mark.parametrize("last", ["dist.destroy_process_group()", ""])
def test_unequal_numbers_of_batches(last):
    """The rank with fewer of them leaves the group, or ends."""
    code = f"""
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2).to("hpu"))
for _ in range(4 - 2 * rank):
    model(torch.ones(3, 4, device="hpu")).sum().backward()
    torch.hpu.synchronize()
{last}
"""
    printed = run_job(code, [1, 0])
    assert re.search(
        r"hccl::allreduce failed on rank 0 of 2 .*: rank 1 \(process \d+\) has ended, or has left the group", printed[0]
    )
    assert "issued at" not in printed[0]  # DDP issues it in a backward, which has no line


def test_ctrl_c_ends_a_wait_for_ranks_that_do_not_come():
    with Job("if rank == 1: time.sleep(1000)\ndist.all_reduce(x)\nprint(x)") as job:
        job.until_ready()
        time.sleep(0.5)
        for process in job.processes:
            process.send_signal(signal.SIGINT)
        codes, printed = job.ends()
    assert codes == [-signal.SIGINT, -signal.SIGINT] or codes == [130, 130] or codes == [1, 1]
    assert "KeyboardInterrupt" in printed[0]


# This rank's store, and another one that sees what it has written.
STORES = {
    "file": ("dist.FileStore(path, 2)", "dist.FileStore(path, 2)"),
    "tcp": (
        "dist.TCPStore('127.0.0.1', 0, 2, True, wait_for_workers=False)",
        "dist.TCPStore('127.0.0.1', store.port, 2, False, wait_for_workers=False)",
    ),
}


JOIN = """
import os, signal, sys, threading, time
from datetime import timedelta
import torch
import torch.distributed as dist
import habana_frameworks.torch.distributed.hccl

path = sys.argv[1]
def join(store, timeout):
    dist.init_process_group("hccl", store=store, rank=1, world_size=2, timeout=timeout)
"""


def joining(code, folder):
    """How a process ends that creates a group of which the other rank does not come."""
    command = [sys.executable, "-c", JOIN + code, str(folder / "store")]
    with child.start(command, seconds=PATIENCE_S, cwd=ROOT) as process:
        return process.wait(PATIENCE_S)


@pytest.mark.parametrize("kind", STORES)
def test_ctrl_c_ends_the_creation_of_a_group_to_which_a_rank_does_not_come(kind, tmp_path):
    """It is pressed when this rank has written its address, and waits for that of the other one."""
    own, other = STORES[kind]
    code = f"""
store = {own}
other = {other}
before = other.num_keys()

def press():
    while other.num_keys() == before:
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)

threading.Thread(target=press).start()
signal.signal(signal.SIGINT, signal.default_int_handler)
try:
    join(store, timedelta(seconds=1000))
except KeyboardInterrupt:
    print("heard", flush=True)
"""
    ended = joining(code, tmp_path)
    assert ended.code == 0, ended.output
    assert "heard" in ended.output, ended.output


def test_a_rank_that_does_not_come_to_the_creation_of_a_group(tmp_path):
    ended = joining("join(dist.FileStore(path, 2), timedelta(milliseconds=200))", tmp_path)
    assert ended.code == 1
    assert re.search(
        r"DistStoreError: wait timeout after 200ms, keys: \S+\. Another rank has not come to the creation of the "
        r"process group, or has ended\.",
        ended.output,
    ), ended.output


def test_too_few_modules():
    with Job("", HABANA_VISIBLE_MODULES="3") as job:
        _, second = job.processes  # the first would wait for it until the group's timeout
        ended = second.wait(PATIENCE_S)
        assert ended.code == 1
    assert "LOCAL_RANK=1 has no module: HABANA_VISIBLE_MODULES=3 lists 1" in ended.output
