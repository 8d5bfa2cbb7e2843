"""Loading the device and asking for it."""

from openhpu.integration import registration
from openhpu.interface import hpu

__all__ = ["is_habana_available", "load_habana_module"]


def load_habana_module() -> None:
    """Load the device into PyTorch; does nothing if that has happened."""
    registration.register()


def is_habana_available() -> bool:
    """Whether there is an hpu device."""
    return registration.is_registered() and hpu.is_available()
