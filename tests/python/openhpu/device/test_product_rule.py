"""`openhpu calibrate`, and which files of it a process takes."""

import json

import pytest

from openhpu import _C
from openhpu.device import product_rule

pytestmark = pytest.mark.skipif(not _C.has_onednn_products(), reason="oneDNN's products of float32 need AVX-512")
USED = "import torch\nfrom openhpu import _C\ntorch.zeros(2, device='hpu')\nprint(*_C.product_bounds())"
COMMAND = "import sys, torch\nfrom openhpu.cli import main\nsys.exit(main(['calibrate']))"


@pytest.fixture
def run(script, tmp_path):
    """Run a script whose caches lie in the test's folder."""
    device = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "1", "XDG_CACHE_HOME": str(tmp_path)}
    return lambda code, **options: script(code, **device, **options)


def kept(tmp_path):
    return tmp_path / "openhpu" / "products.json"


def test_later_processes_have_what_was_measured(run, tmp_path):
    usual = run(USED).out
    lines = run(COMMAND).out.splitlines()
    assert len(lines) == 4
    assert str(kept(tmp_path)) in lines[3]
    found = json.loads(kept(tmp_path).read_text())
    assert run(USED).out.split() == [str(found["from"][kind]) for kind in product_rule.KINDS]
    found["from"] = dict.fromkeys(product_rule.KINDS, 12345)
    kept(tmp_path).write_text(json.dumps(found))
    assert run(USED).out == "12345 12345 12345" != usual


BAD = {
    "another processor": lambda found: found | {"made for": "another"},
    "a kind missing": lambda found: found | {"from": {"skinny": 1, "single": 1}},
    "no numbers": lambda found: found | {"from": dict.fromkeys(product_rule.KINDS, "1")},
    "a fraction": lambda found: found | {"from": dict.fromkeys(product_rule.KINDS, 1.5)},
    "a negative number": lambda found: found | {"from": dict.fromkeys(product_rule.KINDS, -1)},
    "too large a number": lambda found: found | {"from": dict.fromkeys(product_rule.KINDS, 2**63)},
    "a list": lambda found: [found],
}


@pytest.mark.parametrize("name", [*BAD, "damaged", "no text", "a folder"])
def test_any_other_file_leaves_the_rule_of_the_processor(name, run, tmp_path):
    usual = run(USED).out
    kept(tmp_path).parent.mkdir(exist_ok=True)
    good = {
        "made for": run("import torch\nfrom openhpu.device import product_rule\nprint(product_rule._machine())").out
    }
    good["from"] = dict.fromkeys(product_rule.KINDS, 12345)
    if name == "a folder":
        kept(tmp_path).mkdir()
    elif name == "no text":
        kept(tmp_path).write_bytes(b"\xff\xfe\x00")
    else:
        text = json.dumps(BAD.get(name, lambda found: found)(good))
        kept(tmp_path).write_text(text[:-9] if name == "damaged" else text)
    found = run(USED)
    assert (found.out, found.err) == (usual, "")


def test_a_file_that_cannot_be_written(run, tmp_path):
    (tmp_path / "openhpu").write_text("in the place of the folder")
    found = run(COMMAND, fails=True)
    assert found.code == 1
    assert found.err.startswith("openhpu calibrate: ")
    assert str(tmp_path / "openhpu") in found.err
    assert (tmp_path / "openhpu").read_text() == "in the place of the folder"
