"""Operators that become one graph, which is replayed: HPU graphs, torch.compile, TorchScript."""
