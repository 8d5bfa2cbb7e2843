"""OPENHPU_CHECK_REPLICAS tells where replicas of parameters have not the same bits."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from tests.distributed.ranks import call

CHECKED = {"OPENHPU_CHECK_REPLICAS": "2"}


def _model():
    return torch.nn.Sequential(torch.nn.Linear(8, 17), torch.nn.BatchNorm1d(17), torch.nn.Linear(17, 3))


def _step(model, optimizer, step):
    x = torch.randn(4, 8, generator=torch.Generator().manual_seed(10 * step + dist.get_rank())).to("hpu")
    model(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()


def _train_with_a_difference(where, steps):
    from openhpu.distributed.replicas import ReplicasDiffer

    torch.manual_seed(1)
    model = DistributedDataParallel(_model().to("hpu"))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    try:
        for step in range(steps):
            if step == 2 and where and dist.get_rank() == 1:
                parameter = dict(model.module.named_parameters())[where]
                with torch.no_grad():  # by one unit in the last place
                    parameter.copy_(torch.nextafter(parameter.cpu(), torch.tensor(9.0)).to("hpu"))
            _step(model, optimizer, step)
    except ReplicasDiffer as error:
        return str(error)
    return ""


def test_a_planted_difference_is_named_on_every_rank():
    found = call(_train_with_a_difference, "2.weight", 6, size=2, backend="hccl", variables=CHECKED)
    assert found[0] == found[1]
    assert found[0].startswith("OPENHPU_CHECK_REPLICAS: before forward 4 '2.weight' differs between rank 0 and rank 1,")


def test_equal_replicas_are_no_error():
    assert call(_train_with_a_difference, "", 6, size=2, backend="hccl", variables=CHECKED) == ["", ""]


def _shard_with_a_difference():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    from openhpu.distributed.replicas import ReplicasDiffer

    torch.manual_seed(1)
    model = torch.nn.Linear(8, 4).to("hpu")
    fully_shard(model, mesh=init_device_mesh("hpu", (2, 1), mesh_dim_names=("replicas", "shards")))
    optimizer = torch.optim.AdamW(model.named_parameters(), lr=0.01)
    try:
        for step in range(4):
            if step == 2 and dist.get_rank() == 1:
                with torch.no_grad():
                    model.bias.to_local().add_(1.0)
            _step(model, optimizer, step)
    except ReplicasDiffer as error:
        return str(error)
    return ""


def test_a_difference_between_replicas_of_shards_is_named():
    found = call(_shard_with_a_difference, size=2, backend="hccl", variables=CHECKED)
    assert found[0] == found[1]
    assert found[0].startswith("OPENHPU_CHECK_REPLICAS: after step 4 'bias' differs between rank 0 and rank 1,")
