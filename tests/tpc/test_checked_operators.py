"""Operators whose kernels run with checks: OPENHPU_CHECK_KERNELS=1, in lazy mode, from two libraries.

The glue of one of them has the older entry points.
"""

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


OLDER = """#include <string.h>
#include "gc_interface.h"
extern unsigned char _binary___silu_f32_o_start, _binary___silu_f32_o_end;
extern "C" gcapi::GlueCodeReturn_t GetKernelNames(char** names, unsigned* count, gcapi::DeviceId_t)
{
    if (names) strcpy(names[0], "silu_fwd_f32");
    *count = 1;
    return gcapi::GLUE_SUCCESS;
}
extern "C" gcapi::GlueCodeReturn_t HabanaKernel(
    gcapi::HabanaKernelParams_t* in, gcapi::HabanaKernelInstantiation_t* out)
{
    const unsigned* sizes = in->outputTensors[0].geometry.sizes;
    out->indexSpaceGeometry = {2, {(sizes[0] + 63) / 64, sizes[1]}};
    out->outputTensorAccessPattern[0].dim[0] = {0, 64, 0, 64, 63};
    out->outputTensorAccessPattern[0].dim[1] = {1, 1, 0, 1, 0};
    unsigned bytes = &_binary___silu_f32_o_end - &_binary___silu_f32_o_start, room = out->elfSize;
    out->elfSize = bytes;
    if (room < bytes) return gcapi::GLUE_INSUFICIENT_ELF_BUFFER;
    memcpy(out->kernelElf, &_binary___silu_f32_o_start, bytes);
    return gcapi::GLUE_SUCCESS;
}
"""


def test_findings_are_the_operators_error(tmp_path):
    source, _ = changed(KERNELS["silu"], -1)
    older = built({"silu_f32.c": source, "glue.cpp": OLDER}, checks=True)
    source, described = changed(KERNELS["silu_grad"], 0)
    head = 'guid = "silu_bwd_f32"\nsource = "silu_grad_f32.c"\ninputs = ["f32", "f32"]\noutputs = ["f32"]'
    entry = f"[[kernel]]\n{head}\n{described}\ncomplete = true\n"
    newer = built({"silu_grad_f32.c": source, "all.toml": entry}, checks=True)
    folder = ROOT / "build" / "tests" / "tpc" / "operators" / torch.__version__
    settings = {"OPENHPU_CHECK_KERNELS": "1", "PT_HPU_LAZY_MODE": "1", "OPENHPU_COMPILE": "off"}
    variables = clean_environment(tmp_path, GC_KERNEL_PATH=f"{older}:{newer}", **settings)
    variables["PYTHONPATH"] += f"{os.pathsep}{ROOT}"
    run_code(SCRIPT.format(folder=str(folder)), tmp_path, variables, "default", False)
