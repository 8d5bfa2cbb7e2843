"""Storages: set_, resize_, sharing, moving.

`resize_` and `out=`: sizes, contents and warnings as on the CPU, at first and at second sight.
"""

import copy

import pytest
import torch

from .support import agree, agree_on_error

pytestmark = pytest.mark.usefixtures("collected")


def test_a_storage_can_be_made_filled_and_shared():
    storage = torch.UntypedStorage(16, device="hpu")
    x = torch.empty(0, device="hpu").set_(storage, 0, (4,), (1,))
    x.fill_(2)
    assert x.tolist() == [2.0] * 4
    assert torch.empty(0, dtype=torch.float32, device="hpu").set_(storage).tolist() == [2.0] * 4
    y = torch.ones(6, device="hpu")
    assert x.set_(y).shape == (6,)
    y.add_(1)
    assert x.tolist() == [2.0] * 6


def test_storages_move_between_devices():
    storage = torch.arange(4.0).untyped_storage()
    moved = storage.hpu()
    clone = moved.clone()
    assert moved.device.type == "hpu"
    assert clone.data_ptr() != moved.data_ptr()
    assert list(moved.cpu()) == list(clone.cpu()) == list(storage)


def test_what_was_just_computed_is_copied():
    """In lazy mode these tensors have no memory before somebody asks for it."""
    x = torch.arange(3.0, device="hpu")
    assert copy.deepcopy(x * 2).tolist() == [0, 2, 4]
    assert list((x * 2).untyped_storage().clone()) == list(torch.tensor([0.0, 2, 4]).untyped_storage())
    target = (x * 2).untyped_storage()
    target.copy_((x * 3).untyped_storage(), non_blocking=False)
    assert torch.empty(3, device="hpu").set_(target, 0, (3,)).tolist() == [0, 3, 6]
    assert list((x * 2).untyped_storage().fill_(1)) == [1] * 12


@pytest.mark.parametrize(
    "function",
    [
        lambda a: a.set_(torch.ones(4)),
        lambda a: a.set_(torch.ones(4).untyped_storage()),
        lambda a: a.set_(torch.ones(4, device="hpu").untyped_storage(), -1, (1,), (1,)),
        lambda a: a.set_(torch.ones(4, dtype=torch.int32, device="hpu")),
    ],
)
def test_a_bad_source_is_refused(function):
    with pytest.raises((RuntimeError, TypeError)):
        function(torch.zeros(4, device="hpu"))


def test_resizing_to_zero_frees_and_back_allocates():
    x = torch.ones(1024, device="hpu")
    storage = x.untyped_storage()
    before = torch.hpu.memory_allocated()
    storage.resize_(0)
    assert storage.nbytes() == 0
    assert torch.hpu.memory_allocated() == before - 4096
    assert x.shape == (1024,)  # FSDP keeps the tensor and brings the memory back
    storage.resize_(4096)
    assert x.fill_(3).sum().item() == 3072
    assert torch.hpu.memory_allocated() == before


def test_resizing_keeps_what_fits():
    x = torch.arange(8.0, device="hpu")
    x.untyped_storage().resize_(64)
    assert x.tolist() == list(map(float, range(8)))
    x.untyped_storage().resize_(16)
    assert x[:4].tolist() == [0, 1, 2, 3]


def test_resize_keeps_contents_in_memory_order():
    agree(lambda x: x.resize_(2, 3)[:, :], torch.arange(6.0))
    agree(lambda x: x.resize_(2, 2), torch.arange(6.0))
    agree(lambda x: (x.resize_(9)[:6], x.resize_(6)), torch.arange(6.0))


def test_resize_of_a_view_keeps_the_offset():
    def resized(x):
        view = x[2:4]
        return view.resize_(3), view.storage_offset()

    agree(resized, torch.arange(8.0))


def resized_storages():
    """Memory that it frees is not free under queued readers."""
    x = torch.ones(256, device="hpu")
    y = x * 2
    x.untyped_storage().resize_(2048)
    x.add_(1)
    z = x + 1
    x.untyped_storage().resize_(0)
    return y, z, torch.full((256,), 9.0, device="hpu"), torch.full((512,), 9.0, device="hpu")


def resized_tensors():
    x = torch.full((4,), 2.0, device="hpu")
    y = x + 1
    x.resize_(1000)
    x.fill_(5)
    out = torch.empty(0, device="hpu")
    torch.add(y, y, out=out)  # freed in the order of the queue
    return x, y, torch.mul(out, 3, out=torch.empty(0, device="hpu"))


@pytest.mark.parametrize(
    ("program", "expected"), [(resized_storages, [2.0, 3.0, 9.0, 9.0]), (resized_tensors, [5.0, 3.0, 18.0])]
)
def test_resizing_happens_in_queue_order(program, expected, gate):
    program()
    with gate:
        results = program()
    assert [result.unique().tolist() for result in results] == [[number] for number in expected]


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
