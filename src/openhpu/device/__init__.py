"""The devices of a process: opening them, streams and events, memory, random numbers, the mode, steps."""

# `import torch` ends by loading the device, so no module of this package may be half imported then.
import torch as torch
