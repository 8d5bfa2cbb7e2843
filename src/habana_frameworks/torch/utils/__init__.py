"""Helpers of Gaudi's PyTorch package."""

from habana_frameworks.torch.utils import debug, event_dispatcher, experimental, internal, library_loader

__all__ = ["debug", "event_dispatcher", "experimental", "internal", "library_loader"]
