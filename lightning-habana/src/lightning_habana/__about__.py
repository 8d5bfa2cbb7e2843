"""Version and description of this distribution."""

from importlib.metadata import version

__version__ = version("lightning-habana")
__license__ = "Apache-2.0"
__docs__ = "HPU support for Lightning, on OpenHPU"

__all__ = ["__docs__", "__license__", "__version__"]
