"""Operators that a script keeps out of compiled graphs, by name."""

from collections.abc import Iterable
from typing import Any

from torch import fx


class KeptEager(list[Any]):
    """Operators that run eagerly between the clusters of a graph that is compiled from now on.

    An entry names an operator (`"add"`, `"aten::add"`, `"aten.add"`), one overload of it (`"aten.add.Tensor"`), or is
    one of the two (`torch.ops.aten.add`). It has a list's methods and a set's. Gaudi's name for it is
    `hpu_fallback_op_list`, in `habana_frameworks.torch.dynamo.compile_backend.shared_layer`.
    """

    def add(self, entry: Any) -> None:
        """Append it unless it is there."""
        if entry not in self:
            self.append(entry)

    def update(self, *groups: Iterable[Any]) -> None:
        """Add each entry of each group."""
        for group in groups:
            for entry in group:
                self.add(entry)

    def discard(self, entry: Any) -> None:
        """Remove it if it is there."""
        if entry in self:
            self.remove(entry)

    def names(self, node: fx.Node) -> bool:
        """Whether an entry means the operator that the node calls."""
        if not self:
            return False
        whole = _dotted(node.target)
        namespace, _, rest = whole.partition(".")
        operator = rest.partition(".")[0]
        return not {whole, f"{namespace}.{operator}", rest, operator}.isdisjoint(map(_dotted, self))


def _dotted(operator: Any) -> str:
    """`aten.add.Tensor` of an overload, and of its name in a schema, `aten::add.Tensor`."""
    return str(operator).replace("::", ".")


operators = KeptEager()
