"""Options of `hpu_backend`, for the whole process."""

import sys

from openhpu.capture.torch_compile.configuration import ConfigurationModule, configuration_flags

__all__ = ["configuration_flags"]

sys.modules[__name__].__class__ = ConfigurationModule
