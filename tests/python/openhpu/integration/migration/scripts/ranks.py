"""Distributed training by torchrun: nccl, set_device, DistributedDataParallel, a sampler, and an all_reduce."""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

cpu = os.environ.get("DEVICE") == "cpu"
if not cpu:
    torch.accelerator.set_device_index(0)
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    assert dist.is_nccl_available()
dist.init_process_group(backend="gloo" if cpu else "nccl")
rank = dist.get_rank()
assert dist.get_backend() == ("gloo" if cpu else "nccl")
gpu = torch.device("cpu") if cpu else torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
torch.manual_seed(0)
data = TensorDataset(torch.randn(32, 20), torch.randn(32, 1))
loader = DataLoader(
    data, batch_size=8, sampler=DistributedSampler(data, shuffle=True), shuffle=False, pin_memory=not cpu
)
norm = nn.BatchNorm1d(8) if cpu else nn.SyncBatchNorm(8)
model = DDP(nn.Sequential(nn.Linear(20, 8), norm, nn.Linear(8, 1)).to(gpu), device_ids=None if cpu else [gpu])
model.eval()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
for epoch in range(2):
    loader.sampler.set_epoch(epoch)
    total = torch.zeros(1, device=gpu)
    for source, targets in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(source.to(gpu)), targets.to(gpu))
        loss.backward()
        optimizer.step()
        total += loss.detach()
    dist.all_reduce(total, op=dist.ReduceOp.SUM)
    if rank == 0:
        print(f"{total.item():.4f}")
dist.barrier()
dist.destroy_process_group()
if cpu:
    # A thread of PyTorch's Gloo may only now drop the barrier's tensors. It needs Python's lock for that, and a Python
    # that is ending would abort the process.
    sys.stdout.flush()
    os._exit(0)
