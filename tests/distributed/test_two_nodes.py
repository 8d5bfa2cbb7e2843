"""Two nodes of two ranks each."""

from tests.distributed.nodes import nodes, run_on_nodes  # noqa: F401

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

def losses(model):
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    found = []
    for step in range(3):
        x = torch.randn(size, 4, 8, generator=torch.Generator().manual_seed(step))[rank].to("hpu")
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss = loss.detach()
        dist.all_reduce(loss, dist.ReduceOp.AVG)
        found.append(round(loss.item(), 5))
    return found

ddp = losses(torch.nn.parallel.DistributedDataParallel(make()))
sharded = losses(fully_shard(make(), mesh=init_device_mesh("hpu", (size,))))
assert ddp == sharded, (ddp, sharded)
print("rank", rank, "of", size, "on node", os.environ["GROUP_RANK"], ddp)
dist.destroy_process_group()
"""


def test_training_on_two_nodes(nodes, tmp_path):  # noqa: F811
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    for node, text in enumerate(run_on_nodes(nodes, script, 2, 150)):
        assert all(f"rank {rank} of 4 on node {node}" in text for rank in (2 * node, 2 * node + 1))
