"""Messages of scripts to Gaudi's loggers."""

from openhpu.interface.debug import Logger, enable_logging

__all__ = ["Logger", "enable_logging"]
