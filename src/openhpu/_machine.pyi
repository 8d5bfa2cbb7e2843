"""What the machine has (csrc/python/machine.cpp): the part of the core that does without PyTorch."""

def device_memory(root: str = "") -> int: ...
def usable_cores(processes: int = 1, root: str = "") -> int: ...

recipe_calls: str
adam_step_schema: str
