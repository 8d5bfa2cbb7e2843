"""Reductions by themselves; across processes see pytorch/strategies/test_ddp.py."""

import pytest
import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

from lightning_habana.utils.hpu_distributed import reduce
from tests.distributed.ranks import ranks


@pytest.mark.parametrize(("operation", "expected"), [
    ("sum", [3.0]), ("SUM", [3.0]), (ReduceOp.SUM, [3.0]), ("mean", [1.5]), ("AVG", [1.5]), (ReduceOp.AVG, [1.5]),
    ("min", [1.0]), (ReduceOp.MAX, [2.0]),
])  # fmt: skip
@ranks(2, backend="hccl")
def test_every_name(operation, expected):
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        found = reduce(torch.tensor([dist.get_rank() + 1], dtype=dtype, device="hpu"), reduce_op=operation)
        assert found.tolist() == expected


def test_without_a_group():
    x = torch.ones(2)
    assert reduce(x) is x
    for operation in ("product", ReduceOp.PRODUCT, "bor"):
        with pytest.raises(TypeError, match="Unsupported ReduceOp"):
            reduce(x, reduce_op=operation)
