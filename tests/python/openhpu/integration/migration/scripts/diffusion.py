"""Training of a denoiser: a generator on the device, noise levels, weights' moving average, a sampling loop."""

import copy
import os

import torch
import torch.nn.functional as F
from torch import nn

device = os.environ.get("DEVICE", "cuda")
generator = torch.Generator(device="cpu").manual_seed(0)
torch.manual_seed(0)


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.time, self.down, self.up = (
            nn.Linear(16, 8),
            nn.Conv2d(1, 8, 3, padding=1),
            nn.ConvTranspose2d(8, 1, 3, padding=1),
        )
        self.norm = nn.GroupNorm(2, 8)

    def forward(self, x, t):
        frequency = torch.exp(-torch.arange(8, dtype=torch.float32, device=t.device))
        angle = t.float()[:, None] * frequency[None]
        time = self.time(torch.cat([angle.sin(), angle.cos()], dim=1))
        return self.up(F.silu(self.norm(self.down(x)) + time[:, :, None, None]))


model = Denoiser().to(device, dtype=torch.float32)
average = copy.deepcopy(model)
alphas = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 50, device=device), dim=0)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=1e-2)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 6)
for _ in range(6):
    clean = torch.rand(4, 1, 8, 8, generator=generator).to(device)
    noise = torch.randn(clean.shape, generator=generator).to(clean.device)
    t = torch.randint(0, 50, (4,), generator=generator).to(device).long()
    level = alphas[t].view(-1, 1, 1, 1)
    loss = F.mse_loss(model(level.sqrt() * clean + (1 - level).sqrt() * noise, t), noise, reduction="mean")
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    optimizer.zero_grad()
    with torch.no_grad():
        for mean, weight in zip(average.parameters(), model.parameters(), strict=True):
            mean.lerp_(weight.to(mean.device), 0.1)
    print(f"{loss.detach().item():.4f}")
with torch.inference_mode():
    image = torch.randn(1, 1, 8, 8, generator=generator).to(device)
    for step in reversed(range(0, 50, 10)):
        image = image - 0.1 * average(image, torch.full((1,), step, device=device, dtype=torch.long))
print(f"{image.float().cpu().numpy().std():.4f}")
if device == "cuda":
    assert torch.Generator(device="cuda").manual_seed(1).device.type == image.device.type
    torch.cuda.ipc_collect()
