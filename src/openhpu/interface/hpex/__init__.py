"""Gaudi's extensions as classes and functions: the names of `habana_frameworks.torch.hpex`."""
