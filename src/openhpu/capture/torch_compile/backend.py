"""The backend `hpu_backend` of torch.compile."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from openhpu import _C
from openhpu.capture.torch_compile import ends, host, in_place, layouts, options as options_module
from openhpu.capture.torch_compile.graph import CompiledGraph
from openhpu.capture.torch_compile.options import Options
from openhpu.device import mode as execution_mode
from openhpu.observe import differences, events


def hpu_backend(
    module: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """Compile a graph of Dynamo's for hpu: forward and backward become graphs that run as recipes.

    `options` override the environment's (see `options.py`); `mode` is checked and changes nothing. Graphs
    without hpu tensors run as they are. Raises ValueError for an unknown option or mode, EagerFallbackError for an
    operator that can't be compiled where running it eagerly is switched off.
    """
    from torch._dynamo.backends.common import aot_autograd

    settings = options_module.read(options, mode)

    def compiler(kind: str) -> Callable[..., Any]:
        def compile_graph(aten: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
            host.unwrap_effects(aten)
            if settings.use_inplace_index_copy:
                in_place.write_in_place(aten)
            weights = _weights(aten) if kind == "inference" and settings.use_graph_freezing else frozenset()
            graph = CompiledGraph(_without_view_checks(aten), kind, settings, weights)
            if graph.device is not None and kind != "backward":
                _report()

            def run(args: list[Any]) -> Sequence[Any]:
                return graph(args)

            run._boxed_call = True  # type: ignore[attr-defined]  # AOTAutograd's mark: it takes a list, and empties it
            return run

        return compile_graph

    backend = aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference" if settings.inference else "forward"),
        partition_fn=layouts.partition,
        decompositions=_decompositions(settings),
        keep_inference_input_mutations=settings.keep_input_mutations,
    )
    finish = ends.with_streams(module)
    return finish(backend(module, example_inputs))


def _report() -> None:
    """Tell listeners that a graph is new and, if its function was compiled before, which guard failed."""
    from torch._dynamo.utils import get_metrics_context

    if execution_mode.is_lazy():
        differences.note("compile-in-lazy")
    site = _C.current_site()
    if reason := vars(get_metrics_context()).get("_metrics", {}).get("recompile_reason"):
        # Without the number of the compiled version, the line of the guard's origin and its stack.
        guard = re.sub(r"^[!\d/]+: ", "", reason.partition("\n")[0]).partition(" # ")[0].strip()
        params = {
            "cause": "guard",
            "op": "torch.compile",
            "argument": guard,
            "dimension": -1,
            "before": "",
            "after": "",
        }
        events.publish("recompilation", params, site)
    events.publish("graph_traced", {"recompiled": bool(reason)}, site)


def _decompositions(settings: Options) -> dict[Any, Any]:
    if settings.decomposition_mode == "core_aten":
        from torch._decomp import core_aten_decompositions

        return core_aten_decompositions()  # type: ignore[no-any-return]
    return {}  # operators run natively, and the compiler of recipes has decompositions of its own


def _weights(module: fx.GraphModule) -> frozenset[str]:
    """Names of the placeholders that stand for parameters and buffers of modules, as Dynamo tells AOTAutograd."""
    context = torch._guards.TracingContext.try_get()
    places = context.fw_metadata.static_input_indices if context is not None and context.fw_metadata else ()
    placeholders = [node.name for node in module.graph.nodes if node.op == "placeholder"]
    return frozenset(placeholders[i] for i in places if i < len(placeholders))


def _without_view_checks(module: fx.GraphModule) -> fx.GraphModule:
    """The graph with reshapes for views: where a custom operator's strides are not those traced, a view would fail."""
    aten = torch.ops.aten
    for node in module.graph.nodes:
        if node.target is aten.view.default:
            node.target = aten.reshape.default
    module.recompile()
    return module


def enable_compiled_autograd(**kwargs: Any) -> None:
    """Let Dynamo trace the backward passes that compiled functions start as a whole, accumulation included.

    `kwargs` override those of the function's torch.compile; PyTorch allows `fullgraph`.
    """
    import torch._dynamo

    torch._dynamo.config.compiled_autograd = True
    torch._dynamo.config.compiled_autograd_kwargs_override = kwargs
