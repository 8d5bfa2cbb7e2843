"""Benchmarks of the hpu device beside PyTorch's CPU device: `python -m benchmarks [name ...] [--json FILE]`."""
