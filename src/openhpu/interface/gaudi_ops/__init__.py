"""Gaudi's own operators, `torch.ops.hpu.*`, each written as PyTorch operators."""
