"""int64 as on a Gaudi (OPENHPU_INT64=gaudi): results wrap to 32 bits and are counted (docs/int64.md)."""

import pytest
import torch

from tests.hpu.support import capture, heard, line

BIG = 2**31 - 3


def wrapped(x):
    return x.to(torch.int32).to(torch.int64)


def numbers():
    return torch.tensor([BIG, BIG, 5, -BIG, 0, 2**30])


def _foreach(x):
    torch._foreach_add_([x], 9)
    return x


PROGRAMS = {
    "add": lambda x: x + x,
    "sub": lambda x: x - 2**30 - 2**30 - 9,
    "mul": lambda x: x * x,
    "neg": lambda x: -x * 2,
    "square": torch.square,
    "sum": lambda x: x.sum(),
    "sums": lambda x: x.repeat(3, 4).sum(0),
    "cumsum": lambda x: x.cumsum(0),
    "prod": lambda x: x[x != 0].prod(),
    "dot": lambda x: torch.dot(x, x),
    "mm": lambda x: torch.mm(x[:, None], x[None]),
    "pow": lambda x: x**3,
    "shift": lambda x: x << 5,
    "add_": lambda x: x.add_(7),
    "foreach": _foreach,
    "view": lambda x: x.repeat(4, 1)[:, ::2].mul_(3),
    "index_add": lambda x: x.index_add(0, torch.tensor([0, 0, 1], device=x.device), x[:3]),
    "scatter_add": lambda x: torch.zeros_like(x).scatter_add(0, torch.zeros_like(x), x),
    "addcmul": lambda x: torch.addcmul(x, x, x),
    "where": lambda x: torch.where(x > 0, x + 5, x),
    "masked_fill": lambda x: x.masked_fill(x > 0, 2**40 + 1),
    "full": lambda x: torch.full((3,), 2**40 + 2, dtype=torch.int64, device=x.device),
    "cat": lambda x: torch.cat([x + x, x]),
    "out": lambda x: torch.add(x, x, out=torch.empty_like(x)),
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_results_have_the_bits_of_32_bit_arithmetic(program, narrow, counted):
    expected = program(numbers())
    with counted() as difference:
        for _ in range(3):  # learned, queued, and once more
            assert torch.equal(program(numbers().to("hpu")).cpu(), wrapped(expected))
    assert difference["int64_overflows"] > 0


def test_what_fits_and_other_dtypes_are_not_counted(narrow, counted):
    with counted(int64_overflows=0):
        x = torch.arange(100, device="hpu")
        assert (x * x - 3).sum().item() == sum(k * k - 3 for k in range(100))
        assert torch.topk(x, 3).indices.tolist() == [99, 98, 97]
        x = torch.full((4,), 3e9, device="hpu")
        assert (x + x).tolist() == [6e9] * 4
        assert (torch.ones(4, dtype=torch.int32, device="hpu") * 3).sum(dtype=torch.int32).item() == 12


def test_a_copy_from_the_cpu_wraps(narrow, counted):
    with counted(int64_overflows=2):
        assert torch.tensor([2**31, 2**32 + 5, 1]).to("hpu").tolist() == [-(2**31), 5, 1]


def test_a_replay_wraps(narrow, counted):
    x = torch.tensor([2**30, 1], device="hpu")
    graph, y = capture(lambda: x * 2)
    x.copy_(torch.tensor([2**30 + 1, 4]))
    torch.hpu.synchronize()  # the capture computes once, and counts when the device has done so
    with counted(int64_overflows=1):
        graph.replay()
        assert y.tolist() == [-(2**31) + 2, 8]


def test_the_line_is_told(narrow):
    x = torch.tensor([2**31 - 1] * 3, device="hpu")
    with heard("int64_overflow") as seen:
        here, y = line(), x + 1
        y.cpu()
    (event,) = seen
    assert event.params == {"op": "aten::add", "overflows": 3}
    assert event.site == (__file__, here)


def test_the_environment_chooses_it(script):
    program = "import torch; x = torch.tensor([2**31 - 1], device='hpu'); print((x + 1).item())"
    assert script(program, OPENHPU_INT64="gaudi").out.split() == [str(-(2**31))]
    assert script(program).out.split() == [str(2**31)]
