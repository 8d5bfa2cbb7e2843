"""Hooks that reset an optimizer's options. Their own module, so that `import torch` loads little else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Each is called with an optimizer before its options are read. It resets options that a step which raised has changed.
before_options: list[Callable[[Any], None]] = []
