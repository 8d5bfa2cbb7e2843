"""Streams and events that a compiled function uses.

Its graph is one command, which runs on the stream that is current at the call. So what the function does with streams
and events is done at the ends of the graph: waits before it, and all else behind it, but for what the function does
before its first operator. Streams that the function enters wait for the graph, and the graph for them.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch._ops import OpOverloadPacket

_Call = tuple[Callable[..., Any], tuple[Any, ...]]


def with_streams(module: fx.GraphModule) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Take streams and events out of a graph of Dynamo's. Returns what adds them to the callable of the graph.

    AOTAutograd would order them by ties between operators, which it can't divide into a forward and a backward pass.
    """
    before: list[_Call] = []
    after: list[_Call] = []
    entered: dict[int, None] = {}
    begun = False
    graphs = [part for part in module.modules() if isinstance(part, fx.GraphModule)]
    for node in [node for part in graphs for node in part.graph.nodes]:
        stream = (node.meta.get("custom") or {}).get("stream")
        if stream is not None:
            node.meta["custom"] = {key: value for key, value in node.meta["custom"].items() if key != "stream"}
            entered.update({stream: None} if stream else {})  # 0: the current one
        if isinstance(node.target, OpOverloadPacket) and node.target._qualified_op_name.startswith("streams::"):
            if node.all_input_nodes:
                continue  # about memory
            calls = before if not begun or node.target.__name__.startswith("wait_") else after
            calls.append((node.target, node.args))
            node.graph.erase_node(node)
        elif node.op.startswith("call_"):
            begun = begun or isinstance(node.meta.get("example_value"), torch.Tensor | tuple | list)
    if not (before or after or entered):
        return lambda run: run
    for part in graphs:
        part.recompile()
    ops = torch.ops.streams
    before = [(ops.wait_stream, (0, stream)) for stream in entered] + before
    after = [(ops.wait_stream, (stream, 0)) for stream in entered] + after

    def wrap(run: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            for function, arguments in before:
                function(*arguments)
            results = run(*args)
            for function, arguments in after:
                function(*arguments)
            return results

        return call

    return wrap
