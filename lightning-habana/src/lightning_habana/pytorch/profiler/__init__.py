"""Trainer's profiler."""

from lightning_habana.pytorch.profiler.profiler import HPUProfiler

__all__ = ["HPUProfiler"]
