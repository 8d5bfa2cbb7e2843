"""A copy into a buffer reads all of its source before it writes, also where the source is a view.

Before Inductor overwrites a buffer, it gives memory of their own to results that still read it. A source that is
a view of such a result keeps the expression of the result. So the loop that writes the buffer reads it at other places,
which it may have overwritten: `x.copy_(x.t().reshape(x.shape))` would read its own results.
"""

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock


@contextlib.contextmanager
def kept() -> Iterator[None]:
    """While it lasts, results that read a buffer get memory before views of them are expressions of a copy into it."""
    from torch._inductor import ir, lowering
    from torch._inductor.virtualized import V

    mutate_to = lowering.mutate_to

    def copied(changed: Any, value: Any, *arguments: Any, **options: Any) -> Any:
        source = value.data if isinstance(value, ir.TensorBox) else value
        if isinstance(source, ir.BaseView):
            changed.realize()
            V.graph.mark_buffer_mutated(changed.get_name())
        return mutate_to(changed, value, *arguments, **options)

    with mock.patch.object(lowering, "mutate_to", copied):
        yield
