"""A recipe that writes into an operand reads all of its source first, wherever the source lies in the operand."""

import torch

from .support import counted

# What is written into x, of shape [240, 3], or into a part of it.
SOURCES = {
    "repeated": lambda x: x[:60].repeat_interleave(4, 0),
    "expanded": lambda x: x[:120].unsqueeze(1).expand(120, 2, 3).flatten(0, 1),
    "turned": lambda x: x.t().reshape(240, 3),
    "a sum, turned": lambda x: (x + 1).t().reshape(240, 3),
    "a product, with dimensions exchanged": lambda x: (x * 2).view(120, 2, 3).transpose(0, 1).reshape(240, 3),
    "reversed": lambda x: x.flip(0),
    "rolled": lambda x: x.roll(1, 0),
    "halves in turns": lambda x: torch.stack((x[:120], x[120:]), 1).view(240, 3),
    "rows of a tensor": lambda x: x.index_select(0, torch.arange(239, -1, -1, device=x.device)).t().reshape(240, 3),
}


def test_a_source_that_lies_in_the_operand():
    x = torch.randn(240, 3)
    for source in SOURCES.values():  # operators become known, one by one
        source(x.to("hpu"))
        torch.hpu.synchronize()
    written = [x.to("hpu") for _ in SOURCES]
    torch.hpu.synchronize()  # inputs of the recipe
    with counted(ops_node_by_node=0, ops_fallback=0, recipe_hits=1):
        for y, source in zip(written, SOURCES.values(), strict=True):
            y.copy_(source(y))
        torch.hpu.synchronize()
    wrong = [name for name, y in zip(SOURCES, written, strict=True) if not torch.equal(y.cpu(), SOURCES[name](x))]
    assert not wrong, wrong


def test_a_source_that_lies_in_another_part_of_the_operand():
    x = torch.randn(240, 3)
    expected = torch.cat(((x[120:] * 2).view(60, 2, 3).transpose(0, 1).reshape(120, 3), x[120:]))
    y = x.to("hpu")
    torch.hpu.synchronize()
    y[:120].copy_((y[120:] * 2).view(60, 2, 3).transpose(0, 1).reshape(120, 3))
    assert torch.equal(y.cpu(), expected)
