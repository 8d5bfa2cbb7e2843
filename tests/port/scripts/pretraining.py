# A step of pretraining like BERT's, with Gaudi's fused parts.
import json

import torch
from torch import nn

import habana_frameworks.torch as ht
from habana_frameworks.torch.hpex.kernels import FusedSDPA
from habana_frameworks.torch.hpex.normalization import FusedClipNorm, FusedRMSNorm
from habana_frameworks.torch.hpex.optimizers import FusedAdamW


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.gamma = nn.Parameter(torch.ones(width))

    def forward(self, x):
        normed = FusedRMSNorm.apply(x, self.gamma, 1e-6)
        q, k, v = self.qkv(normed).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        # No mask, no dropout.
        attended = FusedSDPA.apply(q, k, v, None, 0.0, True, None, "fast")
        return x + self.out(attended.transpose(1, 2).flatten(2))


torch.manual_seed(1)
model = nn.Sequential(nn.Embedding(50, 32), Block(32, 4), Block(32, 4), nn.Linear(32, 50)).to("hpu")
optimizer = FusedAdamW(model.parameters(), lr=1e-2, weight_decay=0.01)
clip = FusedClipNorm(model.parameters(), 1.0)
tokens = torch.randint(0, 50, (4, 16)).hpu()
losses = []
for _ in range(4):
    loss = nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    norm = clip.clip_norm(model.parameters())
    optimizer.step()
    ht.core.mark_step()
    losses += [loss.item(), norm.item()]
print(json.dumps(losses))
