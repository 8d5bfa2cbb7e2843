# torch.compile with Gaudi's backend.
import json

import torch

import habana_frameworks.torch.core  # noqa: F401


@torch.compile(backend="hpu_backend")
def f(x, w):
    return torch.softmax(x @ w, -1).sum(0) * x.mean()


torch.manual_seed(4)
device = torch.device("hpu" if torch.hpu.is_available() else "cpu")
x, w = torch.randn(4, 8), torch.randn(8, 8)
print(json.dumps(f(x.to("hpu", non_blocking=True), w.to(device)).tolist()))
