"""Beside PyTorch's build for CUDA: where hpu is the accelerator, and where it keeps out of a GPU's way.

PyTorch has one accelerator for a process (`torch.accelerator`), and its build for CUDA says CUDA, with a GPU or
without. `csrc/torch/BesideCuda` changes that answer. Where a GPU can be used, only `OPENHPU_BESIDE_CUDA=1` asks for
that.
"""

import os
from pathlib import Path
from types import ModuleType

# Files of NVIDIA's driver: on Linux, on Windows' Linux and on Tegra.
_DRIVER = ("dev/nvidiactl", "dev/dxg", "dev/nvhost-gpu")


class BesideGpuError(ImportError):
    """PyTorch has a GPU as its accelerator, and OPENHPU_BESIDE_CUDA is not set."""


class MigrationBesideGpuError(ImportError):
    """Scripts written for CUDA were to run on hpu on a machine with a GPU."""


def gpu_is_usable(root: str = "/") -> bool:
    """Whether CUDA may find a GPU, by the driver's files and CUDA_VISIBLE_DEVICES. Does not initialise CUDA."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and (not visible.strip() or visible.strip().startswith("-")):
        return False
    return any((Path(root) / name).exists() for name in _DRIVER)


def check(version: ModuleType) -> None:
    """Whether hpu can be the accelerator of the PyTorch whose `torch.version` this is.

    Raises BesideGpuError if a GPU comes first, ImportError if there is no way.
    """
    from openhpu import settings

    for other in ("hip", "xpu"):
        if getattr(version, other, None):
            raise ImportError(
                f"PyTorch {version.__version__} is the build for {other}, beside which there is no hpu; install the "
                "one for the CPU or for CUDA"
            )
    if version.cuda and not settings.get("OPENHPU_BESIDE_CUDA") and gpu_is_usable():
        raise BesideGpuError(
            "this machine has a GPU, which PyTorch's build for CUDA takes as its accelerator; hide the GPU with "
            "CUDA_VISIBLE_DEVICES=-1, or have hpu as torch.accelerator, with the GPU still usable as cuda: "
            "`export OPENHPU_BESIDE_CUDA=1`"
        )


def check_migration(version: ModuleType) -> None:
    """Raise MigrationBesideGpuError where a script that says cuda may mean a GPU."""
    if version.cuda and gpu_is_usable():
        raise MigrationBesideGpuError(
            "GPU migration runs scripts written for CUDA on hpu, and this machine has a GPU, which they may mean. To "
            "use the GPU, unset PT_HPU_GPU_MIGRATION and do not import habana_frameworks.torch.gpu_migration. To use "
            "hpu, hide the GPU by CUDA_VISIBLE_DEVICES=-1"
        )
