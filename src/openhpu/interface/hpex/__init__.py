"""Gaudi's extensions as classes and functions: what `habana_frameworks.torch.hpex` names."""
