"""HPU support for Lightning: `import lightning_habana`, and Trainer and Fabric know "hpu"."""

from lightning_habana import pytorch, registration
from lightning_habana.__about__ import __version__
from lightning_habana.pytorch import *  # noqa: F403

HPU_AVAILABLE = pytorch.HPUAccelerator.is_available()

registration.register()

__all__ = ["HPU_AVAILABLE", "__version__", *pytorch.__all__]
