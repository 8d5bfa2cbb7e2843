"""Beside PyTorch's build for CUDA. In the build for the CPU, hooks of our own stand in CUDA's place."""

import subprocess
from pathlib import Path

import pytest
import torch

from openhpu.integration import beside_cuda

REAL = torch.version.cuda is not None
TORCH = Path(torch.__file__).parent

HOOKS = """
#include <ATen/detail/CUDAHooksInterface.h>
namespace at {
struct Second { virtual ~Second() = default; long word = 0; };
struct CUDAHooks final : PARENTS CUDAHooksInterface {
  explicit CUDAHooks(CUDAHooksArgs) {}
  bool isBuilt() const override { return true; }
  DeviceIndex deviceCount() const override { return 3; }
};
REGISTER_CUDA_HOOKS(CUDAHooks)
}
extern "C" bool is_built() { return at::detail::getCUDAHooks().isBuilt(); }
extern "C" int device_count() { return at::detail::getCUDAHooks().deviceCount(); }
"""

# Before `import torch`, as libtorch_cuda would be.
LOAD = """
    import ctypes
    if {hooks!r}:
        ctypes.CDLL({cpu!r}, ctypes.RTLD_GLOBAL)
        hooks = ctypes.CDLL({hooks!r})
    import torch
    torch.version.cuda = "13.0"
    from openhpu.integration import beside_cuda, registration
    def accelerator():
        return torch.accelerator.current_accelerator()
"""
GPU = """
    beside_cuda.gpu_is_usable = lambda: True
"""


@pytest.fixture(scope="module")
def build(tmp_path_factory):
    """The beginning of a script in PyTorch's build for CUDA; `parents`: what its hooks inherit from."""

    def begin(parents=""):
        if REAL and not parents:
            return LOAD.format(hooks="", cpu="")
        folder = tmp_path_factory.mktemp("hooks")
        (folder / "hooks.cpp").write_text(HOOKS.replace("PARENTS", parents))
        command = ["g++", "-std=c++20", "-shared", "-fPIC", "hooks.cpp", "-o", "hooks.so", f"-I{TORCH / 'include'}"]
        command += [f"-L{TORCH / 'lib'}", "-ltorch_cpu", "-lc10"]
        subprocess.run(command, cwd=folder, check=True, timeout=300)
        return LOAD.format(hooks=str(folder / "hooks.so"), cpu=str(TORCH / "lib" / "libtorch_cpu.so"))

    return begin


@pytest.fixture(scope="module")
def cuda(build):
    return build()


@pytest.mark.parametrize("file", ["", "dev/nvidiactl", "dev/dxg", "dev/nvhost-gpu", "dev/nvidia-caps"])
@pytest.mark.parametrize("visible", [None, "0", "GPU-8932f937", "", " ", "-1", "-1,0"])
def test_a_gpu_is_usable_where_the_driver_is_and_nobody_hides_it(tmp_path, monkeypatch, file, visible):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    (tmp_path / "dev").mkdir()
    if file:
        (tmp_path / file).touch()
    expected = file not in ("", "dev/nvidia-caps") and visible in (None, "0", "GPU-8932f937")
    assert beside_cuda.gpu_is_usable(str(tmp_path)) is expected


def test_hpu_is_the_accelerator_where_there_is_no_gpu(cuda, script):
    code = """
    import habana_frameworks.torch
    x = torch.ones(3, requires_grad=True)
    x.to("hpu").sum().backward()
    print(accelerator(), torch.cuda.is_available(), x.grad.tolist(), torch.ones(1).pin_memory().is_pinned())
    """
    assert script(cuda + code).out == "hpu False [1.0, 1.0, 1.0] True"


@pytest.mark.skipif(REAL, reason="only hooks of our own can be asked")
def test_cudas_hooks_answer_all_else_as_before_and_leaving_restores_them(cuda, script):
    code = """
    import habana_frameworks.torch
    print(hooks.is_built(), hooks.device_count(), accelerator())
    from openhpu import _C
    _C.leave_accelerator()
    print(hooks.is_built(), hooks.device_count(), accelerator())
    _C.become_accelerator()
    print(hooks.is_built(), hooks.device_count(), accelerator())
    """
    assert script(cuda + code, fresh=True).out.splitlines() == ["0 3 hpu", "1 3 cuda", "0 3 hpu"]


@pytest.mark.skipif(REAL, reason="libtorch_cuda's hooks are as expected")
def test_hooks_of_another_kind_are_left_alone(build, script):
    code = """
    registration.autoload()
    print(accelerator(), hooks.is_built(), (torch.ones(2) + 1).tolist())
    import habana_frameworks.torch
    """
    result = script(build("Second,") + code, warnings="default", fails=True, fresh=True)
    assert result.out == "cuda 1 [2.0, 2.0]"
    expected = "hpu cannot be the accelerator of this PyTorch (CUDA's hooks are not an object of one class)"
    assert "RuntimeWarning: the hpu device is not available: RuntimeError: " + expected in result.err
    assert f"RuntimeError: {expected}. The core was built with PyTorch {torch.__version__.split('+')[0]}" in result.err


def test_beside_a_gpu_nothing_changes_until_asked(cuda, script):
    code = """
    before = set(vars(torch))
    registration.autoload()
    print(set(vars(torch)) - before, accelerator(), torch.ones(2).sum().item())
    try:
        torch.ones(1, device="hpu")
    except RuntimeError as error:
        print(error)
    import habana_frameworks.torch
    """
    result = script(cuda + GPU + code, fails=True, fresh=True)
    first, error = result.out.splitlines()
    assert first == "set() cuda 2.0"
    reason = (
        "this machine has a GPU, which PyTorch's build for CUDA takes as its accelerator; hide the GPU with "
        "CUDA_VISIBLE_DEVICES=-1, or have hpu as torch.accelerator"
    )
    assert error.startswith(f"the hpu device is not available: {reason}")
    assert result.last.startswith(f"openhpu.integration.beside_cuda.BesideGpuError: {reason}")


def test_beside_a_gpu_hpu_is_the_accelerator_when_asked(cuda, script):
    code = "    registration.autoload(); print(accelerator(), torch.ones(2, device='hpu').sum().item())"
    assert script(cuda + GPU + code, OPENHPU_BESIDE_CUDA="1").out == "hpu 2.0"


@pytest.mark.parametrize("other", ["hip", "xpu"])
def test_a_build_for_something_else_is_refused(script, other):
    result = script(f"import torch; torch.version.{other} = '7.1'; import habana_frameworks.torch", fails=True)
    assert f"is the build for {other}, beside which there is no hpu; install the one for the CPU" in result.last
