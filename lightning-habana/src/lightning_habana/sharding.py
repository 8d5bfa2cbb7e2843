"""Differences on hpu in the arguments of FSDP, for Trainer and Fabric."""

from typing import Any

from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import ShardingStrategy

from lightning_habana import roots

_STRATEGY = "sharding_strategy"


def precision_of(attribute: str, plugin_class: Any) -> property:
    """The precision plugin of a strategy, which it keeps in `attribute`: a `plugin_class`."""

    def give(self: Any) -> Any:
        return getattr(self, attribute) or plugin_class("32-true")

    def take(self: Any, plugin: Any) -> None:
        if plugin is not None and not isinstance(plugin, plugin_class):
            raise TypeError(f"The FSDP strategy can only work with the `HPUFSDPPrecision` plugin, found {plugin}")
        setattr(self, attribute, plugin)

    return property(give, take, doc=f"A {plugin_class.__name__}.")


class HPUSharding(roots.Mixin):
    """Checks the sharding strategy. The mesh of `device_mesh=(replicas, shards)` has hpu devices, not CUDA's."""

    _arguments: str  # the attribute that has FSDP's

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        known = [name for name in ShardingStrategy.__members__ if not name.startswith("_")]
        given = kwargs.get(_STRATEGY)
        if isinstance(given, str) and given.upper() not in ShardingStrategy.__members__:
            raise roots.MisconfigurationException(
                f"{type(self).__name__}({_STRATEGY}={given!r}): expected one of {', '.join(known)}"
            )
        super().__init__(*args, **kwargs)

    def setup_environment(self) -> None:
        """Join the process group; then make the mesh, which needs it."""
        kwargs = getattr(self, self._arguments)
        mesh = kwargs.get("device_mesh")
        if isinstance(mesh, tuple):
            del kwargs["device_mesh"]
        super().setup_environment()
        if isinstance(mesh, tuple):
            kwargs["device_mesh"] = init_device_mesh("hpu", mesh)
