"""A user's setup.py builds operators without a Gaudi's SDK, by pip; the older interface; what cannot be loaded."""

import shutil
import subprocess
import sys

import torch

from commands import ROOT
from habana_frameworks.torch.utils.lib_utils import get_include_dir, get_lib_dir
from tests.hpu import custom_ops

SETUP = """
import pybind11
import torch
from habana_frameworks.torch.utils.lib_utils import get_include_dir, get_lib_dir
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension

# PyTorch's headers need C++20 from 2.14 on; BuildExtension asks for it.
STANDARD = ["-std=c++17"] if torch.__version__ < "2.14" else []
setup(
    name="user-op",
    version="1.0",
    ext_modules=[
        CppExtension(
            "user_op",
            ["user_op.cpp"],
            include_dirs=[get_include_dir(), "/usr/include/habanalabs", pybind11.get_include()],
            library_dirs=[get_lib_dir()],
            libraries=["habana_pytorch2_plugin"],
            extra_compile_args=STANDARD,
        )
    ],
    cmdclass={"build_ext": BuildExtension},
)
"""


def test_pip_builds_a_users_setup(tmp_path, script):
    source, target = tmp_path / "source", tmp_path / "installed"
    source.mkdir()
    (source / "setup.py").write_text(SETUP)
    shutil.copy(ROOT / "examples/custom_op/smooth_relu.cpp", source / "user_op.cpp")
    argv = [sys.executable, "-m", "pip", "install", "-q", "--no-build-isolation", "--no-deps", "--no-index"]
    subprocess.run([*argv, "--target", str(target), str(source)], check=True, timeout=110)
    (library,) = target.glob("user_op*.so")
    code = f"""
    torch.ops.load_library({str(library)!r})
    x = torch.randn(9, device="hpu")
    torch.testing.assert_close(torch.ops.example.smooth_relu(x, 2.0), nn.functional.softplus(x, beta=2))
    """
    script(code)


def test_the_older_interface_in_every_mode():
    custom_ops.load("legacy", "habana_pytorch_plugin")
    x = torch.randn(6, 4).to("hpu")
    for threshold in (0.0, 0.5):
        for op in (torch.ops.openhpu_legacy.clamp, torch.ops.openhpu_legacy.described):
            y = op(x.t(), threshold)
            assert torch.equal(y.cpu(), torch.where(x.cpu() > threshold, x.cpu(), 0).t())


def test_headers_and_libraries_are_where_users_look():
    for name in ("hpu_custom_op_pt2.h", "hpu_custom_op.h", "perf_lib_layer_params.h", "synapse_common_types.hpp"):
        assert (ROOT / get_include_dir() / name).is_file(), name
    for name in ("habana_pytorch_plugin", "habana_pytorch2_plugin"):
        assert (ROOT / get_lib_dir() / f"lib{name}.so").stat().st_size < 200_000


def test_an_access_that_faults_names_operator_operand_and_line(script):
    code = """
    from tests.hpu import custom_ops
    custom_ops.loaded()
    x = torch.ones(4, device="hpu")
    torch.ops.openhpu_test.by_name(x, "openhpu_test::faults")
    torch.hpu.synchronize()
    """
    result = script(code, fails=True)
    (said,) = [line for line in result.err.splitlines() if line.startswith("openhpu: ")]
    assert "openhpu_test::faults: its kernel for the guid 'test_faults' accessed memory at 0x" in said
    assert "the nearest operand is output 0 (" in said or "the nearest operand is input 0 (" in said  # the lower one
    assert " bytes before it)" in said
    assert ", line " in said


def test_a_listed_library_that_does_not_exist_is_passed_over(script):
    code = """
    from tests.hpu import custom_ops
    custom_ops.loaded()
    x = torch.ones(4, device="hpu")
    assert torch.ops.openhpu_test.scale(x, 2.0).tolist() == [2.0] * 4
    with pytest.raises(RuntimeError, match="/nowhere/libtpc_kernels.so .there is no such file."):
        torch.ops.openhpu_test.by_name(x, "openhpu_test::no_kernel")
    """
    script(code, GC_KERNEL_PATH="/nowhere/libmine.so:/nowhere/libtpc_kernels.so")
