"""`import habana_dataloader`: Gaudi's data loader."""

from typing import Any

from openhpu.interface.data_loader import HabanaDataLoader as HabanaDataLoader, refused_aeon


def __getattr__(name: str) -> Any:
    if name.startswith("aeon"):
        raise AttributeError(str(refused_aeon(f"{__name__}.{name}")))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
