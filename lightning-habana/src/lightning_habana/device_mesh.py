"""FSDP's device mesh, for Trainer and Fabric."""

from __future__ import annotations

from typing import Any

from torch.distributed.device_mesh import init_device_mesh


class HPUMesh:
    """Makes the mesh of `device_mesh=(replicas, shards)` of hpu devices, where Lightning makes one of CUDA's."""

    def _mesh_kwargs(self) -> dict[str, Any]:
        raise NotImplementedError

    def setup_environment(self) -> None:
        """Join the process group; then make the mesh, which needs it."""
        kwargs = self._mesh_kwargs()
        mesh = kwargs.get("device_mesh")
        if not isinstance(mesh, tuple):
            super().setup_environment()  # type: ignore[misc]
            return
        del kwargs["device_mesh"]
        super().setup_environment()  # type: ignore[misc]
        kwargs["device_mesh"] = init_device_mesh("hpu", mesh)
