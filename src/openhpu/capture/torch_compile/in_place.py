"""A compiled graph's writes into its arguments: in place, as the function has them, rather than into a copy.

AOTAutograd makes of `cache.index_copy_(0, slots, rows)` a new tensor and, at the graph's end, a copy of it into the
cache. A recipe would write in place anyway. The first call runs operator by operator, where such a copy takes memory as
large as the cache, and the cache of a server takes nearly all that there is.
"""

from unittest import mock

import torch
from torch import fx
from torch._ops import HigherOrderOperator

_aten = torch.ops.aten
_WRITES = {
    _aten.index_copy.default: _aten.index_copy_.default,
    _aten.index_put.default: _aten.index_put_.default,
    _aten.index_add.default: _aten.index_add_.default,
    _aten.scatter.src: _aten.scatter_.src,
    _aten.scatter.value: _aten.scatter_.value,
    _aten.scatter_add.default: _aten.scatter_add_.default,
}


def write_in_place(module: fx.GraphModule) -> None:
    """Let operators write into the argument that the graph's end would copy their result into.

    Inductor's pass decides whether nothing reads the argument's old contents afterwards.
    """
    targets = {node.target for node in module.graph.nodes}
    if targets.isdisjoint(_WRITES) or any(isinstance(target, HigherOrderOperator) for target in targets):
        return
    from torch._inductor.fx_passes import reinplace

    writes = {target: reinplace.InplaceableOp(into, 0) for target, into in _WRITES.items()}
    with mock.patch.dict(reinplace.inplaceable_ops, writes, clear=True):
        reinplace.reinplace_inplaceable_ops_core(module.graph)
    module.recompile()
