"""Messages of scripts to Gaudi's loggers."""

from openhpu.interface.debug import Logger as Logger, enable_logging as enable_logging
