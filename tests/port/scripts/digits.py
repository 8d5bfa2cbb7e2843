# Trains a small network as mnist's examples do.
import json
import os

os.environ["PT_HPU_LAZY_MODE"] = "1"  # before the import

import torch
from torch import nn

import habana_frameworks.torch.core as htcore

torch.manual_seed(0)
device = torch.device("hpu" if torch.hpu.is_available() else "cpu")
model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 10)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
losses = []
for _ in range(4):
    x, y = torch.randn(8, 16).to(device), torch.randint(0, 10, (8,)).to(device)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    # Ends the graph of the backward pass.
    htcore.mark_step()
    optimizer.step()
    htcore.mark_step()  # and of the update
    losses.append(loss.item())
torch.hpu.synchronize()
print(json.dumps(losses))
