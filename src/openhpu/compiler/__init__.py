"""From a recorded graph to a program that can be read and a recipe that runs without Python.

`program` describes a graph, writes it as Python and traces it, `passes` simplify it, `inductor` makes native code of
it; `recipe` does all this. `server` does it in a process of its own, and `client` is the part in the script's process.

Importing this package is cheap; only `recipe` and what it needs import Inductor.
"""

from openhpu.compiler.errors import CannotCompile

__all__ = ["CannotCompile"]
