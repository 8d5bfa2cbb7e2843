# Data parallel training, started by torchrun.
import json

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import habana_frameworks.torch.core as htcore
from habana_frameworks.torch.distributed.hccl import initialize_distributed_hpu

world_size, rank, local_rank = initialize_distributed_hpu()
dist.init_process_group("hccl", rank=rank, world_size=world_size)
torch.manual_seed(5)
device = torch.device(f"hpu:{local_rank}")
model = DistributedDataParallel(nn.Linear(8, 1).to(device))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
losses = []
for _ in range(3):
    loss = model(torch.ones(4, 8, device=device)).square().mean()
    loss.backward()
    optimizer.step()
    htcore.mark_step()
    dist.all_reduce(total := loss.detach().clone())
    losses.append(total.item() / world_size)
print(json.dumps(losses))
dist.destroy_process_group()
