# Inference by HPU graphs.
import json

import torch
from torch import nn

import habana_frameworks.torch as ht

torch.manual_seed(2)
model = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 4)).eval().to("hpu:0")
ht.hpu.enable_inference_mode()
head = ht.hpu.make_graphed_callables(nn.Linear(4, 2).to("hpu"), (torch.randn(3, 4, device="hpu"),), warmups=3)
model = ht.hpu.wrap_in_hpu_graph(model, disable_tensor_cache=True)
sums = []
with torch.no_grad():
    for rows in (3, 3, 3):
        x = torch.linspace(0, 1, 8 * rows).view(rows, 8).to("hpu")
        sums += head(model(x)).flatten().tolist()
print(json.dumps(sums))
