"""The entry point of group `torch.backends`, which PyTorch calls at the end of `import torch`."""

from openhpu.integration import registration
from openhpu.integration.registration import is_autoload_enabled

__all__ = ["is_autoload_enabled", "is_loaded"]

is_loaded = False


def __autoload() -> None:
    global is_loaded
    if not is_loaded:
        registration.autoload()
        is_loaded = registration.is_registered()
