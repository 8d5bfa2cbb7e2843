"""Bad input: a clear Python error naming cause and remedy, never a crash, and the device usable afterwards."""

import re
from functools import partial

import pytest
import torch
from torch import nn

import habana_frameworks.torch.core as htcore

from .support import line

pytestmark = pytest.mark.usefixtures("usable")
F = nn.functional


@pytest.fixture
def queued_failure(strict_indices):
    """A call that submits a kernel that will fail, of shapes seen before, and the line on which it does."""
    table = torch.ones(4, 2, device="hpu")
    good, bad = torch.tensor([1, 2], device="hpu"), torch.tensor([1, 9], device="hpu")

    def submit(index=bad):
        return F.embedding(index, table), line()

    submit(good)
    torch.hpu.synchronize()
    return submit


READS = {
    "synchronize": lambda y: torch.hpu.synchronize(),
    "accelerator.synchronize": lambda y: torch.accelerator.synchronize(),
    "item": lambda y: y.sum().item(),
    "cpu": lambda y: y.cpu(),
    "tolist": lambda y: y.tolist(),
    "print": str,
    "mark_step sync": lambda y: htcore.mark_step(sync=True),
    "stream.synchronize": lambda y: torch.hpu.current_stream().synchronize(),
    "event.synchronize": lambda y: torch.hpu.current_stream().record_event().synchronize(),
}


@pytest.mark.parametrize("read", READS)
def test_the_error_of_a_queued_kernel_surfaces_at_the_next_synchronisation(read, queued_failure):
    y, number = queued_failure()  # no error yet: the host does not wait
    y.sum()
    with pytest.raises((RuntimeError, IndexError)) as caught:
        READS[read](y)
    text = str(caught.value)
    assert "index out of range" in text
    assert "aten::index_select" in text  # what embedding is made of, on the CPU as well
    assert re.search(rf"{re.escape(__file__)}\", line {number}\b", text)
    torch.hpu.synchronize()  # reported once


def test_only_the_first_error_is_reported(queued_failure):
    table, index = torch.ones(4, 2, device="hpu"), torch.tensor([9, 9], device="hpu")
    torch.hpu.synchronize()
    _, number = queued_failure()
    F.embedding(index, table)  # fails too, on another line
    with pytest.raises(IndexError, match=rf"line {number}\b"):
        torch.hpu.synchronize()
    torch.hpu.synchronize()


def test_commands_after_a_failed_one_still_run_and_its_line_is_kept(queued_failure):
    x = torch.zeros(3, device="hpu")
    x.add_(1)
    _, number = queued_failure()
    for _ in range(2):
        htcore.mark_step()
        x.add_(1)
    with pytest.raises(IndexError, match=f"line {number}"):
        torch.hpu.synchronize()
    assert x.tolist() == [3.0] * 3


@pytest.mark.usefixtures("strict_indices")
def test_an_error_at_first_sight_is_raised_by_the_call_itself():
    # Of a rank that no other test uses: lazy mode only rehearses an operator that it has seen with other sizes.
    x, index = torch.ones(1, 1, 1, 1, 1, 2, device="hpu"), torch.full((1, 1, 1, 1, 1, 2), 9, device="hpu")
    with pytest.raises((IndexError, RuntimeError), match="out of bounds"):
        x.gather(5, index)
    torch.hpu.synchronize()


@pytest.mark.usefixtures("strict_indices")
@pytest.mark.parametrize("wait", [torch.hpu.synchronize, lambda: htcore.mark_step(sync=True)])
def test_an_error_of_backward_carries_the_line_of_its_forward(wait):
    # A backward kernel that fails on values: the index of a gather that changes after the forward.
    def program(last):
        x = torch.ones(2, 4, device="hpu", requires_grad=True)
        index = torch.tensor([[0, 1], [2, 3]], device="hpu")
        y = x.gather(1, index)
        where = line() - 1
        index.data.fill_(last)  # not seen by autograd
        y.sum().backward()
        return where

    program(1)
    torch.hpu.synchronize()
    where = program(77)
    with pytest.raises((RuntimeError, IndexError)) as caught:
        wait()
    text = str(caught.value)
    assert "aten::scatter_add" in text or "aten::gather_backward" in text
    assert f'{__file__}", line {where}' in text


MIXED = {
    "add": lambda x, c: x + c,
    "add reversed": lambda x, c: c + x,
    "mm": lambda x, c: x @ c.t(),
    "in place": lambda x, c: x.add_(c),
    "in place on host": lambda x, c: c.add_(x),
    "out": lambda x, c: torch.add(x, x, out=c),
    "cat": lambda x, c: torch.cat([x, c]),
    "linear": lambda x, c: F.linear(x, c),
    "embedding": lambda x, c: F.embedding(c.long(), x),
    "where": lambda x, c: torch.where(x > 0, x, c),
    "layer_norm": lambda x, c: F.layer_norm(x, [3], c[0]),
    "index of device, table of host": lambda x, c: c[x.long()],
}


# Lazy mode moves other operands: test_lazy_moved_operands.py.
@pytest.mark.parametrize("name", ["in place on host", "out"] if htcore.is_lazy() else MIXED)
@pytest.mark.parametrize("attempt", ["first", "second"])
def test_operands_on_different_devices_are_refused(name, attempt):
    for _ in range(2 if attempt == "second" else 1):
        x, c = torch.ones(2, 3, device="hpu"), torch.ones(2, 3)
        with pytest.raises((RuntimeError, IndexError)) as caught:
            MIXED[name](x, c)
        assert "hpu" in str(caught.value)
        assert "cpu" in str(caught.value)


def test_the_device_error_names_operator_and_argument():
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device") as caught:
        torch.mm(torch.ones(2, 3, device="hpu"), torch.ones(3, 2, device="hpu"), out=torch.ones(2, 2))
    assert re.search(r"argument `?\w+`?", str(caught.value))
    assert "mm" in str(caught.value)


MAKERS = (
    (torch.ones, 1), (torch.empty, 1), (torch.arange, 3), (torch.rand, 3), (torch.tensor, [1.0]),
    (torch.UntypedStorage, 4), (partial(nn.Linear, 2), 2), (torch.Stream,), (torch.Generator,), (torch.ones(1).to,),
    (lambda device: torch.ones(1, device="hpu").to(device),),
)  # fmt: skip
TAKERS = (
    torch.hpu.set_device,
    torch.hpu.synchronize,
    torch.hpu.memory_stats,
    torch.hpu.get_rng_state,
    torch.accelerator.set_device_index,
    torch.ones(1).hpu,
    nn.Linear(2, 2).hpu,
    lambda index: torch.hpu.device(index).__enter__(),
)


@pytest.mark.parametrize(
    "use",
    [*(partial(maker, *size, device="hpu:8") for maker, *size in MAKERS), *(partial(taker, 8) for taker in TAKERS)],
)
def test_a_wrong_device_index_is_an_error_that_says_what_there_is(use):
    with pytest.raises((RuntimeError, AssertionError, ValueError)) as caught:
        use()
    text = str(caught.value)
    assert "8" in text
    assert re.search(r"out of range|invalid|1 device", text, re.IGNORECASE), text


def test_an_operator_without_any_kernel_names_the_remedy():
    library = torch.library.Library("openhpu_test_errors", "DEF")
    library.define("nothing(Tensor x) -> Tensor")
    with pytest.raises(NotImplementedError, match=r"openhpu_test_errors::nothing.*hpu"):
        torch.ops.openhpu_test_errors.nothing(torch.ones(1, device="hpu"))


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")  # PyTorch's own, at the first use
def test_an_unsupported_layout_is_an_error_not_a_crash():
    for x in (torch.ones(2, 2).to_sparse_csr(), torch.ones(2, 2).to_mkldnn()):
        with pytest.raises((RuntimeError, NotImplementedError)):
            x.to("hpu")


def test_the_warning_of_a_queued_kernel_reaches_the_script_at_the_next_synchronisation():
    x = torch.ones(3, device="hpu")
    for _ in range(2):  # it is known after the first time, if it was not before
        with pytest.warns(UserWarning, match="degrees of freedom"):
            x[:1].var()
            torch.hpu.synchronize()
