# A graph that the script records and replays itself.
import json

import torch

stream = torch.hpu.Stream()
static = torch.zeros(4, device="hpu")
graph = torch.hpu.HPUGraph()
with torch.hpu.graph(graph, stream=stream):
    result = static * 2 + 1
sums = []
for k in range(3):
    static.copy_(torch.full((4,), float(k)))
    graph.replay()
    torch.hpu.synchronize()
    sums.append(result.sum().item())
print(json.dumps(sums))
