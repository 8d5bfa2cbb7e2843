"""Traces of the work of devices: in torch.profiler, of a whole process, and as files."""
