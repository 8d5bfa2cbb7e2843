"""Names that tools reach for inside Gaudi's package."""

from habana_frameworks.torch.internal import bridge_config as bridge_config
