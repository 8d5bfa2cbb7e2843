"""Each feature in each mode: a table, which is the lane's page. What it stands for is in ecosystem/vllm/features.py."""

import os
import re
import sys

import pytest

from commands import ROOT, child
from ecosystem.vllm.features import FEATURES

_MOST_S = 1200.0
# Of the lazy mode: what is most used there.
_LAZY = {
    "bf16",
    "fp8 dynamic",
    "fp8 static",
    "compressed-tensors fp8 channel",
    "experts, bf16",
    "experts, fp8 dynamic",
    "LoRA",
    "MLA",
    "warm-up",
}
MODES = ("lazy",) if os.environ.get("PT_HPU_LAZY_MODE") == "1" else ("eager", "compile")
CELLS = [f"{name}/eager" for name, feature in FEATURES.items() if "eager" in MODES and not feature.warmup]
CELLS += [f"{name}/compile" for name, feature in FEATURES.items() if "compile" in MODES and not feature.refused]
CELLS += [f"{name}/lazy" for name in FEATURES if "lazy" in MODES and name in _LAZY]
_found: dict[str, str] = {}


def process(cell):
    """What must be alike of cells that one process runs one after the other."""
    name, _, mode = cell.rpartition("/")
    feature = FEATURES[name]
    alone = feature.calibration or feature.refused or feature.warmup or feature.replicas > 1
    alone = alone or "tensor_parallel_size" in feature.options
    return feature.kind, feature.environment, mode, cell if alone else ""


@pytest.mark.parametrize("cell", CELLS)
def test_feature(cell, request):
    chosen = [item.callspec.params["cell"] for item in request.session.items if "cell" in item.callspec.params]
    if cell not in _found:
        alike = [other for other in chosen if process(other) == process(cell) and other not in _found]
        words = [sys.executable, "-m", "ecosystem.vllm.features", *alike]
        ended = child.run(words, seconds=_MOST_S, cwd=ROOT, farewell=10.0)
        _found.update(re.findall(r"^cell (.+?): (.+)$", ended.output, re.MULTILINE))
        _found.setdefault(cell, f"the process ended: {ended.how}\n{ended.tail}")
    assert _found[cell].startswith("right"), _found[cell]
