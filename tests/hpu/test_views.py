"""View operators are real views: shared memory, no device work, PyTorch's own sizes and strides."""

import pytest
import torch

from .support import agree

# Without composites of these, whose aliases the conformance suite compares.
VIEWS = {
    "view": lambda x: x.view(6, 4),
    "view dtype": lambda x: x.view(torch.int32),
    "view smaller dtype": lambda x: x.view(torch.int16),
    "transpose": lambda x: x.transpose(0, 1),
    "permute": lambda x: x.view(2, 2, 6).permute(2, 0, 1),
    "select": lambda x: x[2],
    "slice": lambda x: x[1:3, ::2],
    "narrow": lambda x: x.narrow(1, 2, 3),
    "squeeze": lambda x: x[:1].squeeze(0),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "expand": lambda x: x[:1].expand(5, 6),
    "as_strided": lambda x: x.as_strided((3, 3), (2, 1), 4),
    "unfold": lambda x: x.unfold(1, 3, 2),
    "diagonal": lambda x: x.diagonal(),
    "detach": lambda x: x.detach(),
    "alias": lambda x: torch.ops.aten.alias(x),
    "real": lambda x: torch.view_as_complex(x.view(12, 2)).real,
    "imag": lambda x: torch.view_as_complex(x.view(12, 2)).imag,
    "view_as_real": lambda x: torch.view_as_real(torch.view_as_complex(x.view(12, 2))),
    "conj imag": lambda x: torch.view_as_complex(x.view(12, 2)).conj().imag,
    "split": lambda x: x.split(2, 1)[2],
    "unbind": lambda x: x.unbind(1)[3],
    "data": lambda x: x.data,
}


def fresh():
    return torch.arange(24.0).view(4, 6)


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_shares_memory_and_needs_no_device(name, gate, counted):
    x = fresh().to("hpu")
    torch.hpu.synchronize()
    with gate, counted(ops_submitted=0, ops_waited=0, ops_fallback=0):
        view = VIEWS[name](x)
    assert view.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()


@pytest.mark.parametrize("name", [name for name in VIEWS if name not in ("expand", "unfold")])
def test_a_write_through_a_view_changes_the_base(name):
    for _ in range(2):
        agree(lambda x: VIEWS[name](x).fill_(7), fresh())


def test_is_set_to_and_storage_identity():
    x = torch.ones(4, device="hpu")
    assert x.is_set_to(x.view(4))
    assert not x.is_set_to(x[1:])
    for pair in ((x, torch.ones(4)), (torch.ones(4), x)):
        with pytest.raises(RuntimeError, match=r"at least two devices, hpu:0 and cpu!.*of aten::is_set_to"):
            pair[0].is_set_to(pair[1])
