# DeepSpeed's ZeRO, whose settings are in a file.
import json

import deepspeed
import torch
from torch import nn

import habana_frameworks.torch.core as htcore

deepspeed.init_distributed(dist_backend="hccl")
torch.manual_seed(8)
model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 1)).to("hpu")
engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config="deepspeed_zero.json")
x, y = torch.randn(8, 16).to("hpu"), torch.randn(8, 1).to("hpu")
losses = []
for _ in range(3):
    loss = (engine(x) - y).square().mean()
    engine.backward(loss)
    engine.step()
    htcore.mark_step()
    losses.append(loss.item())
print(json.dumps(losses))
torch.distributed.destroy_process_group()
