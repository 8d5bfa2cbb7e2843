"""Helpers of Gaudi's PyTorch package."""
