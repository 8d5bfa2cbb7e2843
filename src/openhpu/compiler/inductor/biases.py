"""A bias that only generated code uses is added there: a library would first write it into the whole result.

Inductor decides so for GPUs alone, and only where all users of a product are loops. The result of a recipe is no loop,
but the sum is written once, whether a recipe returns it or not. So a product that a loop reads has its bias in that
loop, also where another recipe reads the sum: the backward pass of an activation, in another region.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

_Decision = Callable[[Any], bool]


def _where_a_loop_reads(decide: _Decision) -> _Decision:
    """Only where the sum is not merely returned."""

    def chosen(match: Any) -> bool:
        return any(user.op != "output" for user in match.output_node().users) and decide(match)

    return chosen


@contextlib.contextmanager
def in_loops() -> Iterator[None]:
    """While it lasts, Inductor gives a bias to generated code where a loop reads the sum, and no library does."""
    from torch._inductor.fx_passes import post_grad

    is_loop = post_grad.is_pointwise_use
    names = [name for name in vars(post_grad) if name.startswith("should_prefer_unfused_")]
    decisions = {name: getattr(post_grad, name) for name in names}
    ours = {name: _where_a_loop_reads(decide) for name, decide in decisions.items()}

    def reads(use: Any, *others: Any) -> bool:
        return use.op == "output" or is_loop(use, *others)

    entries = [entry for each in post_grad.pass_patterns for some in each.patterns.values() for entry in some]
    with contextlib.ExitStack() as stack:
        stack.enter_context(mock.patch.object(post_grad, "is_gpu", lambda device: True))  # these decisions alone ask
        stack.enter_context(mock.patch.object(post_grad, "is_pointwise_use", reads))
        stack.enter_context(mock.patch.dict(vars(post_grad), ours))
        for name, decide in decisions.items():
            for entry in entries:
                if entry.extra_check is decide:
                    stack.enter_context(mock.patch.object(entry, "extra_check", ours[name]))
        yield
