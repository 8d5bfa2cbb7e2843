"""DistributedDataParallel on hpu trains as on the CPU over Gloo."""

import copy

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import openhpu
from openhpu.device import mode
from tests.distributed.ranks import ranks


def make_model():
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(20, 64), torch.nn.Tanh(), torch.nn.Linear(64, 5))


def batches(rank, n=5, rows=8):
    draw = {"generator": torch.Generator().manual_seed(100 + rank)}
    return [(torch.randn(rows, 20, **draw), torch.randint(0, 5, (rows,), **draw)) for _ in range(n)]


def train(model, device, rank, steps=5, **options):
    model = model.to(device)
    # One process, one card: hpu's index is the process's own.
    ddp = DistributedDataParallel(model, bucket_cap_mb=0.003, **options)
    optimizer = torch.optim.AdamW(ddp.parameters(), lr=0.01)
    losses = []
    for x, y in batches(rank, steps):
        loss = torch.nn.functional.cross_entropy(ddp(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if device == "hpu" and mode.is_lazy():
            openhpu.hpu.synchronize()
        losses.append(loss.item())
    return losses, [p.detach().cpu() for p in model.parameters()]


def same(found, expected):
    assert found[0] == pytest.approx(expected[0], rel=1e-4)
    torch.testing.assert_close(found[1], expected[1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [{}, {"gradient_as_bucket_view": True}, {"static_graph": True}, {"find_unused_parameters": True}],
    ids=lambda o: next(iter(o), "plain"),
)
@ranks(2)
def test_trains_as_on_the_cpu(options):
    rank = dist.get_rank()
    model = make_model()
    expected = train(copy.deepcopy(model), "cpu", rank, **options)
    before = openhpu.counters()["collectives"]
    found = train(model, "hpu", rank, **options)
    same(found, expected)
    assert openhpu.counters()["collectives"] - before >= 2 * 5


@ranks(2)
def test_unused_parameters():
    rank = dist.get_rank()

    class Branches(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(2))

        def forward(self, x, which):
            return self.parts[which](x)

    torch.manual_seed(0)
    model = Branches().to("hpu")
    ddp = DistributedDataParallel(model, find_unused_parameters=True)
    x = torch.ones(1, 4, device="hpu")
    ddp(x, rank).sum().backward()
    for part in model.parts:  # each was used by one rank of two
        assert torch.equal(part.weight.grad.cpu(), torch.full((4, 4), 0.5))


@ranks(2)
def test_buffers_and_synchronised_batch_norm():
    rank = dist.get_rank()
    mine = slice(2 * rank, 2 * rank + 2)
    torch.manual_seed(0)
    plain = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4))
    both = torch.randn(4, 3, 8, 8, requires_grad=True)
    factors = torch.randn(4, 4, 6, 6)  # without them the gradient of a normalised sum is 0
    reference = copy.deepcopy(plain)
    (reference(both) * factors).sum().backward()
    model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(plain).to("hpu")
    ddp = DistributedDataParallel(model)
    x = both.detach()[mine].to("hpu").requires_grad_()
    (ddp(x) * factors[mine].to("hpu")).sum().backward()
    torch.testing.assert_close(x.grad.cpu(), both.grad[mine], rtol=1e-4, atol=1e-4)
    for ours, theirs in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(2 * ours.grad.cpu(), theirs.grad, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(model[1].running_mean.cpu(), reference[1].running_mean, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(model[1].running_var.cpu(), reference[1].running_var, rtol=1e-4, atol=1e-5)
