"""What torch.compile is told about hpu, when its modules are imported."""

from __future__ import annotations

import importlib
from typing import Any


def register_backend() -> None:
    """The name `hpu_backend`."""
    from torch._dynamo.backends import registry

    def hpu_backend(*args: Any, **kwargs: Any) -> Any:
        from openhpu.dynamo.backend import hpu_backend

        return hpu_backend(*args, **kwargs)

    registry.register_backend(hpu_backend, name="hpu_backend")  # type: ignore[arg-type]


def register_device() -> None:
    """Dynamo's interface of the device. The module registers it at its end: it may be the one that imports Dynamo."""
    importlib.import_module("openhpu.dynamo.device_interface")


def keep_out() -> None:
    """Steps, events and graphs act on the device's state; Dynamo calls them between what it traces."""
    from torch._dynamo import trace_rules

    for name in ("compiled_steps", "dynamo", "events", "hpu.graphs", "mode", "steps"):
        trace_rules.add(f"openhpu.{name}")


def refuse_inductor() -> None:
    """Inductor has no code for hpu; without these it fails with an assertion that says nothing."""
    from torch._inductor.codegen import common

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            'backend="inductor" has no code for hpu tensors. Use torch.compile(..., backend="hpu_backend"), or move '
            "the tensors to the CPU."
        )

    class Wrapper:
        supports_caching = False
        create = staticmethod(refuse)

    common.register_device_op_overrides("hpu", common.DeviceOpOverrides())
    common.register_backend_for_device("hpu", refuse, Wrapper)  # type: ignore[arg-type]
