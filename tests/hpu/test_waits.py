"""Each wait of the host is an event: its kind, the operator and the line."""

import threading
from contextlib import contextmanager

import pytest
import torch

import habana_frameworks.torch.core as htcore
from openhpu import _C
from openhpu._machine import usable_cores

from .support import heard, line


@contextmanager
def waits():
    """A list of the waits in the block: kind, operator, line, nanoseconds."""
    found = []
    with heard("blocking_read", "wait") as seen:
        yield found
    found += [(e.params.get("kind", "read"), e.params["op"], e.site and e.site[1], e.params["wait_ns"]) for e in seen]


KINDS = {
    "shape aten::nonzero": [
        lambda x, mask, n: x.nonzero(),
        lambda x, mask, n: torch.where(mask),
        lambda x, mask, n: torch.argwhere(mask),
    ],
    "shape aten::index.Tensor": [lambda x, mask, n: x[mask]],
    "shape aten::masked_select": [lambda x, mask, n: x.masked_select(mask)],
    "shape aten::_unique2": [lambda x, mask, n: x.unique()],
    "shape aten::bincount": [lambda x, mask, n: n.bincount()],
    "shape aten::repeat_interleave.Tensor": [lambda x, mask, n: x.repeat_interleave(n)],
    "shape aten::unique_dim": [lambda x, mask, n: n.unique(dim=0)],  # a fallback
    "read aten::equal": [lambda x, mask, n: x.equal(x + 0)],
    "read aten::item": [lambda x, mask, n: x[0].item(), lambda x, mask, n: bool(mask[0])],
    "read aten::_to_copy": [lambda x, mask, n: x.tolist(), lambda x, mask, n: x.cpu()],
    None: [
        lambda x, mask, n: x.repeat_interleave(n, output_size=8),
        lambda x, mask, n: x.__setitem__(mask, x[:2] + 1),
        lambda x, mask, n: x.__setitem__(mask, 0),
        lambda x, mask, n: x * 2,
        lambda x, mask, n: x.masked_fill(mask, 0),
        lambda x, mask, n: torch.where(mask, x, 0),
        lambda x, mask, n: x[n - 1],
    ],
}


@pytest.mark.parametrize(("expected", "call"), [(kind, call) for kind, calls in KINDS.items() for call in calls])
def test_a_wait_has_a_kind(call, expected):
    def arguments():
        x = torch.tensor([1.0, 2.0, 2.0, 4.0], device="hpu")
        return x, torch.tensor([True, False, True, False], device="hpu"), torch.tensor([2, 1, 3, 2], device="hpu")

    for _ in range(2):  # afterwards no operator is new
        call(*arguments())
        htcore.mark_step()
    tensors = arguments()
    with waits() as found:
        call(*tensors)
    assert [f"{kind} {op}" for kind, op, *_ in found] == ([expected] if expected else [])


def test_a_wait_has_a_line_and_a_time():
    x = torch.ones(4, device="hpu")
    with waits() as found:
        x.nonzero()
        x.equal(x)
        number = line() - 1
    assert [(kind, where) for kind, _, where, _ in found] == [("shape", number - 1), ("read", number)]
    assert all(wait_ns > 0 for *_, wait_ns in found)


def test_the_first_sight_of_an_operator_is_a_kind_of_its_own():
    x = torch.ones(1, 2, 1, 3, 1, 2, 1, 2, device="hpu")
    with waits() as first:
        x.roll(1)
    with waits() as second:
        x.roll(1)
    assert not second
    assert [(kind, op) for kind, op, *_ in first] == [("first_sight", "aten::roll")]


@pytest.mark.skipif(usable_cores() == 1, reason="on one core commands run where they are submitted")
def test_a_full_queue_is_a_kind_of_its_own():
    x = torch.ones(8, device="hpu")

    def run_ahead(steps):
        for _ in range(steps):
            for _ in range(100):
                x.tanh_()
            htcore.mark_step()

    run_ahead(2)
    opener = threading.Timer(0.5, _C.unblock_queue, [0])
    _C.block_queue(0)
    opener.start()
    with waits() as found:
        run_ahead(60)
    opener.join()
    assert {kind for kind, *_ in found} == {"queue"}
