"""Operators whose kernels run with checks: OPENHPU_CHECK_KERNELS=1."""

import os

import torch

from commands import ROOT
from tests.processes import clean_environment, run_code
from tests.tpc.libraries import built
from tests.tpc.planted import KERNELS, changed

SCRIPT = """
import os, sys
import torch
import habana_frameworks.torch
from pathlib import Path
from examples.tpc import operators

folder = Path({folder!r})
folder.mkdir(parents=True, exist_ok=True)
operators.load_operators(folder)
x = torch.randn(3, 100)
y = torch.ops.tpc_example.silu(x.to("hpu")).cpu()
torch.testing.assert_close(y, torch.nn.functional.silu(x), rtol=1e-4, atol=1e-5)
for grad in (x, x):
    try:
        torch.ops.tpc_example.silu_backward(grad.to("hpu"), x.to("hpu"))
        torch.hpu.synchronize()
    except RuntimeError as error:
        text = str(error)
        assert "tpc_example::silu_backward" in text and "OPENHPU_CHECK_KERNELS" in text, text
        assert "silu_grad_f32.c:15: store outside the pattern: member (1, 0) stores out0[0, 0]" in text, text
    else:
        raise AssertionError("no error")
"""


def test_findings_are_the_operators_error(tmp_path):
    files, entries = {}, []
    for name, number, guid in (("silu", -1, "silu_fwd_f32"), ("silu_grad", 0, "silu_bwd_f32")):
        source, described = changed(KERNELS[name], number)
        files[f"{name}_f32.c"] = source
        inputs = len(KERNELS[name].inputs())
        entries.append(
            f'[[kernel]]\nguid = "{guid}"\nsource = "{name}_f32.c"\ninputs = {["f32"] * inputs}\noutputs = ["f32"]\n'
            f"{described}\ncomplete = true\n"
        )
    library = built(files | {"all.toml": "".join(entries)}, checks=True)
    folder = ROOT / "build" / "tests" / "tpc" / "operators" / torch.__version__
    variables = clean_environment(tmp_path, GC_KERNEL_PATH=str(library), OPENHPU_CHECK_KERNELS="1")
    variables["PYTHONPATH"] += f"{os.pathsep}{ROOT}"
    run_code(SCRIPT.format(folder=str(folder)), tmp_path, variables, "default", False)
