"""The backend `hpu_backend`."""

from openhpu.dynamo import hpu_backend

__all__ = ["hpu_backend"]
