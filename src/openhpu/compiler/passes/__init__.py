"""Passes over the functional graph between tracing and Inductor, one per file, in the order in which they run."""

from torch.fx import GraphModule

from openhpu.compiler.passes.bool_bytes import bool_bytes
from openhpu.compiler.passes.channels_last import channels_last
from openhpu.compiler.passes.distinct_outputs import distinct_outputs
from openhpu.compiler.passes.dropped_writes import dropped_writes
from openhpu.compiler.passes.empty_lists import empty_lists
from openhpu.compiler.passes.exchanged_inputs import exchanged_inputs
from openhpu.compiler.passes.explicit_numbers import explicit_numbers
from openhpu.compiler.passes.float_zeros import float_zeros
from openhpu.compiler.passes.joined_slices import joined_slices

_PASSES = (
    # First: a view of a new tensor may become an input, which the next passes look for.
    joined_slices,
    exchanged_inputs,
    bool_bytes,
    empty_lists,
    distinct_outputs,
    float_zeros,
    explicit_numbers,
    channels_last,
    dropped_writes,
)


def run(graph: GraphModule) -> None:
    """All passes, in place."""
    for each in _PASSES:
        each(graph)
    graph.graph.lint()
    graph.recompile()
