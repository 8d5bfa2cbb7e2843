"""Image classification with DataParallel, cudnn.benchmark, meters, top-k, and a checkpoint for one GPU."""

import os

import torch
import torch.backends.cudnn as cudnn
from torch import nn


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU())

    def forward(self, x):
        return x + self.body(x)


gpu = None if os.environ.get("DEVICE") == "cpu" or not torch.cuda.is_available() else 0
torch.manual_seed(0)
cudnn.deterministic = True
cudnn.benchmark = False
model = nn.Sequential(nn.Conv2d(3, 8, 3, 2), Residual(8), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))
if gpu is not None:
    torch.cuda.set_device(gpu)
    model = nn.DataParallel(model).cuda()
device = torch.device(f"cuda:{gpu}" if gpu is not None else "cpu")
criterion = nn.CrossEntropyLoss().to(device)
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9, weight_decay=1e-4)
images, target = torch.randn(4, 8, 3, 16, 16), torch.randint(10, (4, 8))
for step in range(4):
    x = images[step].to(device, non_blocking=True)
    y = target[step].cuda(gpu, non_blocking=True) if gpu is not None else target[step]
    output = model(x)
    loss = criterion(output, y)
    with torch.no_grad():
        _, top = output.topk(5, 1, True, True)
        right = top.t().eq(y.view(1, -1).expand_as(top.t()))[:5].reshape(-1).float().sum(0, keepdim=True)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.4f} {right.item():.0f}")
torch.save({"state_dict": model.state_dict(), "optimizer": optimizer.state_dict()}, "checkpoint.pth.tar")
loc = f"cuda:{gpu}" if gpu is not None else "cpu"
checkpoint = torch.load("checkpoint.pth.tar", map_location=loc)
model.load_state_dict(checkpoint["state_dict"])
optimizer.load_state_dict(checkpoint["optimizer"])
if gpu is not None:
    assert torch.cuda.memory_allocated()
    assert torch.cuda.max_memory_reserved()
    torch.cuda.empty_cache()
model.eval()
print(f"{criterion(model(images[0].to(device)), target[0].to(device)).item():.4f}")
