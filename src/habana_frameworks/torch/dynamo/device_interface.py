"""Dynamo's interface of the device."""

from openhpu.dynamo.device_interface import HpuInterface

__all__ = ["HpuInterface"]
