"""Replicas of parameters have the same bits, and OPENHPU_CHECK_REPLICAS tells where they have not."""

import time
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.nn.parallel import DistributedDataParallel

from tests.distributed.ranks import call

CHECKED = {"OPENHPU_CHECK_REPLICAS": "2"}
RECIPES = {"PT_HPU_LAZY_MODE": "1", "OPENHPU_COMPILE": "background"}


def _model():
    return torch.nn.Sequential(torch.nn.Linear(8, 17), torch.nn.BatchNorm1d(17), torch.nn.Linear(17, 3))


def _step(model, optimizer, step):
    x = torch.randn(4, 8, generator=torch.Generator().manual_seed(10 * step + dist.get_rank())).to("hpu")
    model(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()


def _train_with_a_difference(kind, where, steps=6):
    """What is said of a parameter that rank 1 has changed before its third step, in DDP or in shards."""
    from openhpu.integration.distributed.replicas import ReplicasDiffer

    torch.manual_seed(1)
    if kind == "DDP":
        inner = _model().to("hpu")
        model = DistributedDataParallel(inner)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    else:
        model = inner = torch.nn.Linear(8, 4).to("hpu")
        fully_shard(model, mesh=init_device_mesh("hpu", (2, 1), mesh_dim_names=("replicas", "shards")))
        optimizer = torch.optim.AdamW(model.named_parameters(), lr=0.01)
    try:
        for step in range(steps):
            if step == 2 and where and dist.get_rank() == 1:
                parameter = inner.get_parameter(where)
                with torch.no_grad():  # by one unit in the last place
                    own = parameter if kind == "DDP" else parameter.to_local()
                    own.copy_(torch.nextafter(own.cpu(), torch.tensor(9.0)).to("hpu"))
            _step(model, optimizer, step)
    except ReplicasDiffer as error:
        return str(error)
    return ""


@pytest.mark.parametrize(
    ("kind", "where", "when"), [("DDP", "2.weight", "before forward 4"), ("shards", "bias", "after step 4")]
)
def test_a_planted_difference_is_named_on_every_rank(kind, where, when):
    found = call(_train_with_a_difference, kind, where, size=2, backend="hccl", variables=CHECKED)
    assert found[0] == found[1]
    assert found[0].startswith(f"OPENHPU_CHECK_REPLICAS: {when} '{where}' differs between rank 0 and rank 1,")


def test_equal_replicas_are_no_error():
    assert call(_train_with_a_difference, "DDP", "", size=2, backend="hccl", variables=CHECKED) == ["", ""]


def _train(kind):
    """The parameters' bits as this rank has them, and the steps whose graphs ran as recipes. It ends some steps after
    all ranks have used a recipe."""
    import openhpu
    from openhpu.compiler.client import client

    if dist.get_rank() == 1:  # the compiler's answers come late
        ready = client.Compilations._ready

        def late(*arguments):
            time.sleep(1)
            ready(*arguments)

        client.Compilations._ready = late

    group = dist.new_group(timeout=timedelta(minutes=1))
    torch.manual_seed(0)
    layers = torch.nn.Linear(16, 32), torch.nn.LayerNorm(32), torch.nn.GELU(), torch.nn.Linear(32, 8)
    inner = torch.nn.Sequential(*layers).to("hpu")
    generator = torch.Generator().manual_seed(dist.get_rank())
    if kind == "ZeRO 3":
        sharding = {"use_orig_params": True, "device_id": torch.device("hpu")}
        model = FullyShardedDataParallel(inner, process_group=group, **sharding)
    else:
        model = DistributedDataParallel(inner, process_group=group)
    options = {"lr": 1e-2, "weight_decay": 0.1}
    if kind == "ZeRO 1":
        from torch.distributed.optim import ZeroRedundancyOptimizer  # which warns when it is imported

        options |= {"optimizer_class": torch.optim.AdamW, "process_group": group}
        optimizer = ZeroRedundancyOptimizer(model.parameters(), **options)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), **options)
    taken = []
    left = 16
    deadline = time.monotonic() + 90
    while left:
        before = openhpu.counters()["recipe_hits"]
        model(torch.randn(4, 16, generator=generator).to("hpu")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        openhpu.hpu.synchronize()
        taken.append(openhpu.counters()["recipe_hits"] - before)
        used = torch.tensor([float(any(taken)), float(time.monotonic() < deadline)])
        dist.all_reduce(used, dist.ReduceOp.MIN)
        assert used[1], "no recipe after 90 s"
        left -= int(used[0])
        if not used[0]:
            time.sleep(0.2)  # both ranks' steps would hold the cores that the compiler needs
    if kind == "ZeRO 3":
        with model.summon_full_params(model):
            state = {name: p.detach().cpu().clone() for name, p in inner.named_parameters()}
    else:
        state = {name: t.cpu() for name, t in inner.state_dict().items()}
    return {name: t.numpy().tobytes() for name, t in state.items()}, taken


@pytest.mark.parametrize("kind", ["DDP", "ZeRO 1", "ZeRO 3"])
def test_replicas_are_equal_although_one_ranks_recipes_are_late(kind, tmp_path):
    variables = RECIPES | {"PT_HPU_RECIPE_CACHE_CONFIG": str(tmp_path)}
    (first, taken), (second, other) = call(_train, kind, size=2, backend="cpu:gloo,hpu:hccl", variables=variables)
    assert [k for k, (own, others) in enumerate(zip(taken, other, strict=True)) if own != others] == []
    assert taken[0] == 0 < taken[-1]
    assert [name for name in first if first[name] != second[name]] == []
