"""Dynamo's interface of the device."""

from openhpu.integration.dynamo_interface import HpuInterface as HpuInterface
