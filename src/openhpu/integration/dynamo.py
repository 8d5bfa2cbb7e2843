"""Registrations of hpu with torch.compile, when its modules are imported."""

import sys
import types
from typing import Any

from openhpu.device import devices, mode, steps
from openhpu.integration import traced
from openhpu.interface import hpu


def register_backend() -> None:
    """The name `hpu_backend`."""
    from torch._dynamo.backends import registry

    def hpu_backend(*args: Any, **kwargs: Any) -> Any:
        from openhpu.capture.torch_compile.backend import hpu_backend

        return hpu_backend(*args, **kwargs)

    registry.register_backend(hpu_backend, name="hpu_backend")  # type: ignore[arg-type]


def keep_out() -> None:
    """Dynamo calls what acts on the device's state between what it traces; answers that never change it keeps."""
    from torch._dynamo import trace_rules
    from torch._dynamo.decorators import disable, substitute_in_graph
    from torch._dynamo.eval_frame import skip_code

    from openhpu.interface import dynamicity

    traced_through = ("openhpu.device.devices", "openhpu.device.mode", "openhpu.device.steps")
    packages = ("openhpu.device.", "openhpu.interface.hpu.", "openhpu.observe.metrics")
    modules = [name for name in sys.modules if name.startswith(packages) and name not in traced_through]
    modules += ["openhpu.capture", "openhpu.observe.events"]
    for name in modules:
        trace_rules.add(name)
    # The marks of torch._dynamo.assume_constant_result and torch._dynamo.disable.
    constant: Any = (hpu.is_available, hpu.device_count, hpu.is_bf16_supported, hpu.get_device_name, mode.is_lazy)
    for function in constant:
        function._dynamo_marked_constant = True
    for function in vars(devices).values():
        if isinstance(function, types.FunctionType) and function not in constant:
            function._torchdynamo_disable = True  # type: ignore[attr-defined]
            skip_code(function.__code__)
    for function in (hpu.current_stream, hpu.default_stream, hpu.stream, hpu.synchronize):
        known: Any = getattr(traced, function.__name__)  # for streams it gives a torch.Stream
        substitute_in_graph(function, skip_signature_check=True)(known)
    # It looks names up that torch._dynamo, which is being imported, does not have yet, and keeps that.
    trace_rules.get_torch_obj_rule_map.cache_clear()
    # Hooks that follow modules are traced in the graph of a module. Between graphs they run as they are.
    followed = dynamicity.Dynamicity
    for hook in (followed._enter, followed._leave):
        skip_code(hook.__code__)
    for name in ("_begin", "_finish"):
        setattr(followed, name, disable(getattr(followed, name)))
    # `mark_step` itself is traced, and does nothing then.
    for ends_step in (steps.add_step_closure, steps._end_step):
        marks: Any = ends_step
        marks._torchdynamo_disable = True
        marks._torchdynamo_disable_msg = (
            "functions given to add_step_closure, and a mark_step that has to call them, run between graphs: call "
            "them outside of the compiled function, or leave fullgraph at False"
        )
        skip_code(marks.__code__)


def refuse_inductor() -> None:
    """Inductor has no code for hpu; without these it fails with an assertion that says nothing."""
    from torch._inductor.codegen import common

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(
            'backend="inductor" has no code for hpu tensors. Use torch.compile(..., backend="hpu_backend"), or move '
            "the tensors to the CPU."
        )

    class Scheduling:  # a class, since Inductor of 2.15 asks whether it is one of Triton's
        def __init__(self, *args: Any) -> None:
            refuse()

    class Wrapper:
        supports_caching = False
        create = staticmethod(refuse)

    common.register_device_op_overrides("hpu", common.DeviceOpOverrides())
    common.register_backend_for_device("hpu", Scheduling, Wrapper)  # type: ignore[arg-type]
