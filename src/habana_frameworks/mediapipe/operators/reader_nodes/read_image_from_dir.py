"""`get_max_file`, which readers of scripts call."""

from openhpu.interface.media.readers import get_max_file

__all__ = ["get_max_file"]
