"""From a recorded graph to a program that can be read and a recipe that runs without Python.

`description` holds the form in which a graph arrives, `program` writes it as Python, `recipe` compiles it for the CPU
with PyTorch's Inductor, `disk_cache` keeps recipes, `service` compiles in a process of its own.

Importing this package is cheap; only `recipe` and its modules import Inductor.
"""

from __future__ import annotations

from openhpu.compiler.errors import CannotCompile

__all__ = ["CannotCompile"]
