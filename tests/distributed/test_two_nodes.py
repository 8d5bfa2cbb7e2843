"""Several nodes, whose network is slow and loses packets; and one that is lost."""

import pytest

from tests.distributed.nodes import LINK, nodes, started  # noqa: F401
from tests.distributed.ranks import PATIENCE_S

SCRIPT = """
import os
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("hccl")
rank, size = dist.get_rank(), dist.get_world_size()
group = dist.new_group([1, 2])
x = torch.full((3,), float(rank), device="hpu")
if rank in (1, 2):
    dist.all_reduce(x, group=group)
    assert x.tolist() == [3.0] * 3
dist.barrier()

def make():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 8)).to("hpu")

def losses(model, whole=False):
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    found = []
    for step in range(3):
        x = torch.randn(size, 4, 8, generator=torch.Generator().manual_seed(step))
        loss = model((x.flatten(0, 1) if whole else x[rank]).to("hpu")).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss = loss.detach()
        if not whole:
            dist.all_reduce(loss, dist.ReduceOp.AVG)
        found.append(loss.item())
    return torch.tensor(found)

alone = losses(make(), whole=True)
for model in (torch.nn.parallel.DistributedDataParallel(make()),
              fully_shard(make(), mesh=init_device_mesh("hpu", (size,)))):
    torch.testing.assert_close(losses(model), alone, rtol=1e-5, atol=1e-6)
print("rank", rank, "of", size, "on node", os.environ["GROUP_RANK"], alone.tolist())
dist.destroy_process_group()
"""
LOST = """
import datetime
import torch
import torch.distributed as dist

dist.init_process_group("hccl", timeout=datetime.timedelta(seconds=TIMEOUT))
x = torch.ones(1000, device="hpu")
while True:
    dist.all_reduce(x, dist.ReduceOp.AVG)
    torch.hpu.synchronize()
    print("step", flush=True)
"""
TIMEOUT_S = 8


@pytest.mark.parametrize(
    ("count", "ranks", "variables"), [(2, 2, {}), (4, 1, {"HCCL_SOCKET_IFNAME": LINK[:2]})], ids=["2-2", "4-1"]
)
def test_training_gives_the_losses_of_one_process(nodes, tmp_path, count, ranks, variables):  # noqa: F811
    """With the interface that leads to the first node, or with the one of a name."""
    (script := tmp_path / "script.py").write_text(SCRIPT)
    with started(nodes(count), script, ranks, variables=lambda _: variables) as processes:
        ended = [process.wait(PATIENCE_S) for process in processes]
    for node, one in enumerate(ended):
        assert one.code == 0, one.output
        for rank in range(ranks * node, ranks * (node + 1)):
            assert f"rank {rank} of {count * ranks} on node {node}" in one.output


def test_a_node_that_is_lost(nodes, tmp_path):  # noqa: F811
    """Its network is gone, so that nobody hears of its end. The others end, and say which collective of which rank."""
    (script := tmp_path / "script.py").write_text(LOST.replace("TIMEOUT", str(TIMEOUT_S)))
    made = nodes(2)
    with started(made, script, 1) as processes:
        while "step" not in processes[0].printed():
            assert processes[0].poll(0.05) is None, processes[0].printed()
        made[1].cut()
        ended = processes[0].wait(PATIENCE_S)
    assert ended.code == 1
    assert "hccl::allreduce failed on rank 0 of 2" in ended.output, ended.output
