"""Messages of scripts to Gaudi's loggers."""

from openhpu.insight.debug import Logger, enable_logging

__all__ = ["Logger", "enable_logging"]
