"""Print docs/gaudi-operators.md: `python -m openhpu.interface.gaudi_ops > docs/gaudi-operators.md`."""

import habana_frameworks.torch  # noqa: F401  # loads the device
from openhpu.interface.gaudi_ops.document import markdown

print(markdown(), end="")
