"""The class that a media pipe is derived from."""

from openhpu.media.pipe import MediaPipe

__all__ = ["MediaPipe"]
