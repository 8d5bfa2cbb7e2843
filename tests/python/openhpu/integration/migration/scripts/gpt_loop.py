"""A character model with a memory-mapped batch loader, autocast, gradient accumulation, clipping and a checkpoint."""

import os
from contextlib import nullcontext

import torch
import torch.nn.functional as F
from torch import nn

device = os.environ.get("DEVICE", "cuda")
device_type = "cuda" if "cuda" in device else "cpu"
torch.manual_seed(1337)
torch.backends.cuda.matmul.allow_tf32 = True
torch.backends.cudnn.allow_tf32 = True
ctx = nullcontext() if device_type == "cpu" else torch.amp.autocast(device_type=device_type, enabled=False)
scaler = (
    torch.cuda.amp.GradScaler(enabled=False) if device_type == "cuda" else torch.amp.GradScaler("cpu", enabled=False)
)
text = torch.tensor(list(b"to be or not to be, that is the question. " * 8), dtype=torch.int64)


def batch():
    starts = torch.randint(len(text) - 9, (4,))
    x, y = (torch.stack([text[i + k : i + k + 8] for i in starts]) for k in (0, 1))
    if device_type == "cuda":
        return x.pin_memory().to(device, non_blocking=True), y.pin_memory().to(device, non_blocking=True)
    return x.to(device), y.to(device)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out, self.norm = nn.Linear(16, 48), nn.Linear(16, 16), nn.LayerNorm(16)

    def forward(self, x):
        q, k, v = (part.view(4, 8, 2, 8).transpose(1, 2) for part in self.qkv(self.norm(x)).split(16, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).reshape(4, 8, 16))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(128, 16), nn.Embedding(8, 16)
        self.blocks, self.head = nn.Sequential(Block(), Block()), nn.Linear(16, 128, bias=False)

    def forward(self, x, y):
        place = torch.arange(0, x.size(1), dtype=torch.long, device=x.device)
        logits = self.head(self.blocks(self.tokens(x) + self.places(place)))
        return F.cross_entropy(logits.view(-1, 128), y.view(-1))


model = Model().to(device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, betas=(0.9, 0.95), fused=device_type == "cuda")
model = torch.compile(model) if os.environ.get("COMPILE") else model
for _ in range(6):
    for _ in range(2):
        with ctx:
            loss = model(*batch()) / 2
        scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    print(f"{loss.item() * 2:.4f}")
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "ckpt.pt")
checkpoint = torch.load("ckpt.pt", map_location=device)
print(f"{sum(w.double().abs().sum().item() for w in checkpoint['model'].values()):.1f}")
