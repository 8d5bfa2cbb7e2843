"""Eight ranks on one node and on two, and several trainings at once: too long for each run of the tests."""

import os
import shutil
import signal
import sys

import pytest

from commands import child
from tests.distributed.nodes import nodes, run_on_nodes  # noqa: F401
from tests.distributed.ranks import Job, free_port
from tests.processes import clean_environment

SECONDS = 400
RANKS = 8
SCRIPT = """
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group("hccl")
rank, size = dist.get_rank(), dist.get_world_size()
assert size == 8

def vector(*values):
    return torch.tensor(values, dtype=torch.float32, device="hpu")

def check(found, expected):
    found = found.tolist() if isinstance(found, torch.Tensor) else [each.tolist() for each in found]
    assert found == expected, (found, expected)

everyone = [float(r) for r in range(size)]
for op, expected in (("SUM", sum(everyone)), ("MAX", 7.0), ("MIN", 0.0), ("AVG", 3.5)):
    x = vector(rank)
    dist.all_reduce(x, getattr(dist.ReduceOp, op))
    check(x, [expected])
x = vector(rank)
dist.broadcast(x, 5)
check(x, [5.0])
x = vector(rank)
dist.reduce(x, 3)
if rank == 3:
    check(x, [28.0])
parts = [vector(0) for _ in range(size)]
dist.all_gather(parts, vector(rank))
check(parts, [[r] for r in everyone])
whole = vector(*everyone)
dist.all_gather_into_tensor(whole, vector(rank))
check(whole, everyone)
gathered = [vector(0) for _ in range(size)] if rank == 6 else None
dist.gather(vector(rank), gathered, 6)
if rank == 6:
    check(gathered, [[r] for r in everyone])
x = vector(-1)
dist.scatter(x, [vector(10 + r) for r in range(size)] if rank == 2 else None, 2)
check(x, [10.0 + rank])
x = vector(0)
dist.reduce_scatter_tensor(x, vector(*everyone))
check(x, [8.0 * rank])
x = vector(*everyone)
dist.all_to_all_single(x, vector(*(10 * rank + r for r in range(size))))
check(x, [10.0 * r + rank for r in range(size)])
if rank % 2 == 0:
    dist.send(vector(rank), rank + 1)
else:
    x = vector(0)
    dist.recv(x, rank - 1)
    check(x, [rank - 1.0])
group = dist.new_group([1, 4, 6])
if rank in (1, 4, 6):
    x = vector(rank)
    dist.all_reduce(x, group=group)
    check(x, [11.0])
objects = [None] * size
dist.all_gather_object(objects, {"rank": rank})
assert objects == [{"rank": r} for r in range(size)]
dist.barrier()

def make():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 8))

def losses(model, rows, device):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    found = []
    for step in range(3):
        x = torch.randn(size, 4, 8, generator=torch.Generator().manual_seed(step))[rows].to(device)
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss = loss.detach()
        if device == "hpu":
            dist.all_reduce(loss, dist.ReduceOp.AVG)
        found.append(loss.item())
    return torch.tensor(found)

alone = losses(make(), slice(None), "cpu")
for model in (
    torch.nn.parallel.DistributedDataParallel(make().to("hpu")),
    fully_shard(make().to("hpu"), mesh=init_device_mesh("hpu", (size,))),
):
    torch.testing.assert_close(losses(model, rank, "hpu"), alone, rtol=1e-4, atol=1e-5)
print(f"rank {rank} is right\\n", end="")
dist.destroy_process_group()
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def right(text):
    """The ranks that found everything right."""
    return {rank for rank in range(RANKS) if f"rank {rank} is right" in text}


@pytest.mark.parametrize("lazy", ["0", "1"])
def test_one_node(script, lazy):
    torchrun = shutil.which("torchrun", path=os.path.dirname(sys.executable)) or "torchrun"
    command = [torchrun, "--nproc-per-node", str(RANKS), "--master-port", str(free_port()), str(script)]
    environment = clean_environment(script.parent, PT_HPU_LAZY_MODE=lazy, OMP_NUM_THREADS="1")
    ended = child.run(command, seconds=SECONDS, cwd=script.parent, env=environment)
    assert ended.code == 0, ended.output
    assert right(ended.output) == set(range(RANKS))


def test_two_nodes(nodes, script):  # noqa: F811
    first, second = run_on_nodes(nodes, script, RANKS // 2, SECONDS)
    assert (right(first), right(second)) == (set(range(4)), set(range(4, 8)))


TENANT = """
from torch.nn.parallel import DistributedDataParallel
torch.manual_seed(0)
model = torch.nn.Linear(4, 1).to("hpu")
model = DistributedDataParallel(model) if dist.get_world_size() > 1 else model
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
print("module", os.environ["HLS_MODULE_ID"], flush=True)
print("ready", flush=True)
for step in range(STEPS):
    optimizer.zero_grad()
    model(torch.ones(2, 4, device="hpu")).square().mean().backward()
    optimizer.step()
    torch.hpu.synchronize()
print("weight", round(model.state_dict()[next(iter(model.state_dict()))].sum().item(), 4))
"""
TENANTS = ("0", "1", "2,3", "4,5,6,7")


def tenant(modules, steps):
    return Job(
        TENANT.replace("STEPS", str(steps)), len(modules.split(",")), HABANA_VISIBLE_MODULES=modules,
        OPENHPU_MODULE_LOCKS="1", OPENHPU_MODULE_WAIT_S="0", OMP_NUM_THREADS="1",
    )  # fmt: skip


def test_four_tenants_of_which_one_is_killed():
    """Each with its modules and its own MASTER_PORT. The others end as if they were alone; its modules are free."""
    jobs = [tenant(modules, 10**9 if modules == "2,3" else 200) for modules in TENANTS]
    try:
        for job in jobs:
            job.until_ready()
        killed = jobs[2].processes
        os.kill(killed[0].pid, signal.SIGKILL)
        weights = set()
        for job, modules in zip(jobs, TENANTS, strict=True):
            if modules == "2,3":
                continue
            codes, printed = job.ends()
            assert set(codes) == {0}, printed
            for text, module in zip(printed, modules.split(","), strict=True):
                assert f"module {module}\n" in text
                weights.add(text.splitlines()[-1])
        assert len(weights) == 1
        for process in killed:
            process.kill()
            process.wait(30)
        with tenant("2,3", 3) as again:
            codes, printed = again.ends()
            assert codes == [0, 0], printed
    finally:
        for job in jobs:
            job.__exit__()
