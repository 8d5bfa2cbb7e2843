"""Two nodes: network namespaces with a link between them, made and removed by the test."""

import contextlib
import os
import shutil
import subprocess
import sys

import pytest

from tests.distributed.ranks import ROOT

SCRIPT = """
import os
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("hccl")
rank = dist.get_rank()

def make():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)).to("hpu")

def losses(model):
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    found = []
    for step in range(3):
        x = torch.randn(2, 4, 8, generator=torch.Generator().manual_seed(step))[rank].to("hpu")
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss = loss.detach()
        dist.all_reduce(loss, dist.ReduceOp.AVG)
        found.append(round(loss.item(), 5))
    return found

ddp = losses(torch.nn.parallel.DistributedDataParallel(make()))
sharded = losses(fully_shard(make(), mesh=init_device_mesh("hpu", (2,))))
assert ddp == sharded, (ddp, sharded)
print("rank", rank, "of", dist.get_world_size(), "on node", os.environ["GROUP_RANK"], ddp)
dist.destroy_process_group()
"""
# Two suites may run the test at once.
_OWN = os.getpid()
NODES = ((f"ohpu-a-{_OWN}", "ohpu-va", "10.231.7.1"), (f"ohpu-b-{_OWN}", "ohpu-vb", "10.231.7.2"))


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


@pytest.fixture
def nodes():
    try:
        ip("netns", "add", f"ohpu-probe-{_OWN}")
        ip("netns", "del", f"ohpu-probe-{_OWN}")
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no network namespaces can be made here: {getattr(error, 'stderr', error)}")
    with contextlib.ExitStack() as stack:
        for name, _, _ in NODES:
            ip("netns", "add", name)
            stack.callback(subprocess.run, ["ip", "netns", "del", name], check=False)
        ip("link", "add", NODES[0][1], "netns", NODES[0][0], "type", "veth", "peer", NODES[1][1], "netns", NODES[1][0])
        for name, link, address in NODES:
            ip("-n", name, "addr", "add", f"{address}/24", "dev", link)
            ip("-n", name, "link", "set", link, "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield NODES


def test_training_on_two_nodes(nodes, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    torchrun = shutil.which("torchrun", path=os.path.dirname(sys.executable)) or "torchrun"
    processes = []
    for number, (name, link, _) in enumerate(nodes):
        command = [
            "ip", "netns", "exec", name, torchrun, "--nnodes", "2", "--nproc-per-node", "1", "--node-rank", str(number),
            "--master-addr", nodes[0][2], "--master-port", "29555", str(script),
        ]  # fmt: skip
        environment = {**os.environ, "GLOO_SOCKET_IFNAME": link, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        processes.append(
            subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, cwd=tmp_path
            )
        )
    try:
        printed = [process.communicate(timeout=150)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    for number, (process, text) in enumerate(zip(processes, printed, strict=True)):
        assert process.returncode == 0, text
        assert f"rank {number} of 2 on node {number}" in text
