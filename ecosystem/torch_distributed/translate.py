"""PyTorch's tests of torch.distributed, with hccl in nccl's place and hpu in cuda's.

They name the device throughout; what is replaced is names, nothing else. From them follow what the tests compare, skip
and expect of a backend for accelerators.
"""

import importlib.util
import re
from pathlib import Path

_NAMES = (
    (r'"nccl"', '"hccl"'),
    (r"dist\.Backend\.NCCL", '"hccl"'),
    (r"dist\.is_nccl_available\(\)", "True"),
    (r"torch\.cuda\b", "torch.hpu"),
    (r"\.cuda\(", ".hpu("),
    (r'"cuda([":])', r'"hpu\1'),
    (r"ProfilerActivity\.CUDA", "ProfilerActivity.HPU"),
    (r"DeviceType\.CUDA", "DeviceType.HPU"),
    # A Gaudi has these for all devices only.
    (
        r"from torch\.hpu\.amp import autocast, GradScaler",
        'autocast = lambda *a, **k: torch.amp.autocast("hpu", *a, **k)\n'
        'GradScaler = lambda *a, **k: torch.amp.GradScaler("hpu", *a, **k)',
    ),
)


def translated() -> str:
    """The module's text. Raises FileNotFoundError where this build of PyTorch has no tests."""
    package = importlib.util.find_spec("torch.testing._internal.distributed")
    folders = list(package.submodule_search_locations or ()) if package else []
    text = (Path(folders[0] if folders else "") / "distributed_test.py").read_text()
    for pattern, name in _NAMES:
        text = re.sub(pattern, name, text)
    return text
