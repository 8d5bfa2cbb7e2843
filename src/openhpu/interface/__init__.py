"""The interface for Gaudi's scripts: torch.hpu, torch.ops.hpu, hpex, mixed precision, inference mode, media."""

# `import torch` ends by loading the device, so no module of this package may be half imported then.
import torch as torch
