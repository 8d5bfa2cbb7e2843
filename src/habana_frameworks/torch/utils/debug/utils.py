"""The device's state, for a script that cannot go on."""

from openhpu.interface.debug import dump_state_and_terminate as dump_device_state_and_terminate

__all__ = ["dump_device_state_and_terminate"]
