"""A convolutional classifier with use_accel arguments, loaders with cuda_kwargs, a schedule and a test pass."""

import os

import torch
import torch.nn.functional as F
from torch import nn, optim
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 4, 3, 1), nn.Conv2d(4, 8, 3, 1)
        self.fc1, self.fc2 = nn.Linear(8 * 4 * 4, 16), nn.Linear(16, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv2(F.relu(self.conv1(x)))), 2)
        return F.log_softmax(self.fc2(F.relu(self.fc1(torch.flatten(x, 1)))), dim=1)


use_cuda = os.environ.get("DEVICE") != "cpu" and torch.cuda.is_available()
torch.manual_seed(1)
device = torch.device("cuda") if use_cuda else torch.device("cpu")
cuda_kwargs = {"num_workers": 1, "pin_memory": True, "persistent_workers": True} if use_cuda else {}
data = TensorDataset(torch.randn(48, 1, 12, 12), torch.arange(48) % 10)
train, test = DataLoader(data, batch_size=16, **cuda_kwargs), DataLoader(data, batch_size=24, **cuda_kwargs)
model = Net().to(device)
optimizer = optim.Adadelta(model.parameters(), lr=1.0)
scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.7)
for _ in range(2):
    model.train()
    for images, target in train:
        images, target = images.to(device), target.to(device)
        optimizer.zero_grad()
        loss = F.nll_loss(model(images), target)
        loss.backward()
        optimizer.step()
        print(f"{loss.item():.4f}")
    model.eval()
    total, correct = 0.0, 0
    with torch.no_grad():
        for images, target in test:
            output = model(images.to(device))
            total += F.nll_loss(output, target.to(device), reduction="sum").item()
            correct += output.argmax(dim=1, keepdim=True).eq(target.to(device).view_as(output[:, :1])).sum().item()
    print(f"{total / 48:.4f} {correct}")
    scheduler.step()
