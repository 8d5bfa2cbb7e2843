"""Mixed precision, a captured step, streams that wait for each other, and events that measure."""

import os

import torch
from torch import nn

cpu = os.environ.get("DEVICE") == "cpu"
device = torch.device("cpu" if cpu else "cuda")
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scaler = torch.amp.GradScaler(device.type, init_scale=1024.0)
inputs, targets = torch.randn(8, 8, 16), torch.randn(8, 8, 4)
static_input, static_target = torch.empty(8, 16, device=device), torch.empty(8, 4, device=device)


def step():
    optimizer.zero_grad(set_to_none=False)
    with torch.autocast(device.type, dtype=torch.bfloat16):
        output = model(static_input)
    loss = nn.functional.mse_loss(output.float(), static_target)
    loss.backward()
    optimizer.step()
    return loss.detach()


def load(k):
    static_input.copy_(inputs[k])
    static_target.copy_(targets[k])


load(0)
if cpu:
    losses = [step().item() for _ in range(3)]
else:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        losses = [step().item() for _ in range(3)]
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        static_loss = step()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
for k in range(1, 8):
    load(k)
    if cpu:
        static_loss = step()
    else:
        graph.replay()
    losses.append(static_loss.item())
if not cpu:
    end.record()
    torch.cuda.synchronize()
    assert begin.elapsed_time(end) > 0
    torch.cuda.nvtx.range_push("scaled")
with torch.autocast(device.type, dtype=torch.bfloat16):
    loss = nn.functional.mse_loss(model(static_input).float(), static_target)
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()
print(*(f"{value:.2f}" for value in [*losses, loss.item(), scaler.get_scale()]), sep="\n")
