"""Traces of what devices do: in torch.profiler, of a whole process, and as files."""
