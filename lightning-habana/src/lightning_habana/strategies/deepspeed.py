"""Whether DeepSpeed is there, under the name that scripts ask for."""

from lightning_habana import deepspeed_config

_DEEPSPEED_AVAILABLE = deepspeed_config.is_available()

__all__ = ["_DEEPSPEED_AVAILABLE"]
