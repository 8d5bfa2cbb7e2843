"""The class that a media pipe is derived from."""

from openhpu.interface.media.pipe import MediaPipe as MediaPipe
