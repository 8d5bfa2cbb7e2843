# Habana Mixed Precision, which came before autocast; and autocast.
import json
import os

os.environ["PT_HPU_LAZY_MODE"] = "1"  # before the import

import torch
from torch import nn

import habana_frameworks.torch.core as htcore
from habana_frameworks.torch.hpex import hmp
from habana_frameworks.torch.hpex.optimizers import FusedSGD

torch.manual_seed(3)
model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 1)).to("hpu")
x, y = torch.randn(8, 16).to("hpu"), torch.randn(8, 1).to("hpu")
optimizer = FusedSGD(model.parameters(), 0.05, momentum=0.9)
with torch.autocast("hpu"):
    losses = [(model(x) - y).float().square().mean().item()]
hmp.convert(opt_level="O1", isVerbose=False)
for _ in range(3):
    loss = (model(x) - y).float().square().mean()
    optimizer.zero_grad()
    loss.backward()
    with hmp.disable_casts():
        optimizer.step()
    # Ends the graph of the step.
    htcore.mark_step()
    losses.append(loss.item())
torch.hpu.synchronize()
print(json.dumps(losses))
