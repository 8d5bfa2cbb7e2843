"""`resize_` and `out=`: sizes, contents and warnings as on the CPU, at first and at second sight."""

import pytest
import torch

from .support import agree, agree_on_error


def test_resize_keeps_contents_in_memory_order():
    agree(lambda x: x.resize_(2, 3)[:, :], torch.arange(6.0))
    agree(lambda x: x.resize_(2, 2), torch.arange(6.0))
    agree(lambda x: (x.resize_(9)[:6], x.resize_(6)), torch.arange(6.0))


def test_resize_of_a_view_keeps_the_offset():
    agree(lambda x: ((v := x[2:4]).resize_(3), v.storage_offset()), torch.arange(8.0))


def test_what_is_resized_grows_behind_a_gate(gate):
    def program():
        x = torch.full((4,), 2.0, device="hpu")
        y = x + 1
        x.resize_(1000)
        x.fill_(5)
        out = torch.empty(0, device="hpu")
        torch.add(y, y, out=out)  # freed in the order of the queue
        return x, y, torch.mul(out, 3, out=torch.empty(0, device="hpu"))

    program()
    with gate:
        results = program()
    assert [result.unique().tolist() for result in results] == [[5.0], [3.0], [18.0]]


@pytest.mark.parametrize("size", [(-1,), (2, -3)])
def test_negative_sizes_are_refused(size):
    agree_on_error(lambda x: x.resize_(size), torch.arange(4.0))


OUT = {
    "add": (lambda x, out: torch.add(x, x, out=out), (3, 4)),
    "mm": (lambda x, out: torch.mm(x, x.t(), out=out), (3, 3)),
    "cat": (lambda x, out: torch.cat([x, x], out=out), (6, 4)),
    "exp": (lambda x, out: torch.exp(x, out=out), (3, 4)),
}


@pytest.mark.parametrize("name", OUT)
@pytest.mark.parametrize("sight", [1, 2])
def test_an_out_of_another_size_is_resized_with_a_warning(name, sight):
    function, shape = OUT[name]
    for _ in range(sight):
        out = torch.zeros(5, device="hpu")
        with pytest.warns(UserWarning, match="An output with one or more elements was resized"):
            function(torch.arange(12.0, device="hpu").view(3, 4), out)
            torch.hpu.synchronize()
    assert out.shape == shape
    torch.testing.assert_close(out.cpu(), function(torch.arange(12.0).view(3, 4), torch.empty(0)))
