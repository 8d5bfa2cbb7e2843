"""Operators that become one graph, which is replayed: HPU graphs, torch.compile, TorchScript."""

# `import torch` ends by loading the device, so no module of this package may be half imported then.
import torch as torch
