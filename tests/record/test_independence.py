"""The recorder needs PyTorch alone, of 2.6 or newer and with Python 3.10: the vendor's packages have no more."""

import ast
import sys

import pytest

from commands import ROOT

SOURCES = sorted((ROOT / "openhpu-record" / "src").rglob("*.py"))
RECORDER = [path for path in SOURCES if "replay" not in path.parts]
# The vendor's packages are there on a card, and are asked for where they are used.
OTHERS = {"torch", "openhpu_record", "habana_frameworks"}
ALONE = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("openhpu", "habana_frameworks", "numpy", "safetensors"):
            raise ModuleNotFoundError(f"No module named {name!r}")

sys.meta_path.insert(0, Missing())
for name in [name for name in sys.modules if name.partition(".")[0] in ("openhpu", "habana_frameworks", "numpy")]:
    del sys.modules[name]
import torch
import openhpu_record
from openhpu_record.reading import Recording

torch.__dict__.pop("hpu", None)
layer = torch.nn.Linear(4, 4)
optimizer = torch.optim.AdamW(layer.parameters())
with openhpu_record.record("alone.zip", steps=[1]):
    for step in range(3):
        layer(torch.ones(2, 4)).sum().backward()
        optimizer.step()
with Recording("alone.zip") as found:
    calls = list(found.events("call"))
    assert found.manifest["environment"]["device"] == "cpu", found.manifest
    assert not list(found.events("problem"))
    print(len(calls), sum("results" in call["outcome"] for call in calls))
"""


def imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield (node.module or "").partition(".")[0]


@pytest.mark.parametrize("path", RECORDER, ids=lambda path: path.stem)
def test_the_recorder_imports_pytorch_and_the_standard_library(path):
    tree = ast.parse(path.read_text(), feature_version=(3, 10))
    assert set(imported(tree)) <= OTHERS | sys.stdlib_module_names


def test_no_module_of_a_newer_python():
    """tomllib, StrEnum, Self and the like came with 3.11."""
    text = "".join(path.read_text() for path in RECORDER)
    assert not [name for name in ("tomllib", "StrEnum", "import Self", "datetime.UTC", "except*") if name in text]


def test_a_script_is_recorded_where_openhpu_is_not_installed(script):
    number, with_results = map(int, script(ALONE, TORCH_DEVICE_BACKEND_AUTOLOAD="0").out.split())
    assert number == with_results > 8
