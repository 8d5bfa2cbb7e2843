"""Random programs over a few tensors, and their execution on a device.

A program is a list of instructions, each a name and three numbers that are read modulo what there is, so that every
list is a program. All values stay small integers in every dtype: results are exact whatever order a compiler sums in,
and are compared exactly.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

Tensor = torch.Tensor
BOUND = 16  # of magnitudes: what is made by an instruction is brought back below it


class Instruction(NamedTuple):
    name: str
    a: int
    b: int
    c: int


class Machine:
    """The state while a program runs: tensors that it holds, numbers that it read, errors that it met."""

    def __init__(self, device: str, seed: int, replay: list[Tensor] | None = None):
        self.device = device
        generator = torch.Generator().manual_seed(seed)

        def start(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
            return torch.randint(-4, 5, shape, generator=generator).to(dtype).to(device)

        self.tensors = [
            start((4, 6), torch.float32), start((6,), torch.float32), start((4, 6), torch.int64),
            start((3, 4), torch.bfloat16), start((6, 4), torch.float32), start((), torch.float32),
        ]  # fmt: skip
        self.events: list[Any] = []  # numbers that were read, errors that were raised
        self.drawn: list[Tensor] = []  # random numbers, on the host
        self._replay = replay

    def any(self, number: int) -> Tensor:
        return self.tensors[number % len(self.tensors)]

    def like(self, tensor: Tensor, number: int) -> Tensor:
        """One of the tensors of the same shape and dtype; there is at least the tensor itself."""
        alike = [t for t in self.tensors if t.shape == tensor.shape and t.dtype == tensor.dtype]
        return alike[number % len(alike)]

    def keep(self, tensor: Tensor) -> None:
        if len(self.tensors) >= 14:  # the oldest but one dies
            del self.tensors[1]
        self.tensors.append(tensor)

    def draw(self, make: Callable[[str], Tensor]) -> Tensor:
        """Random numbers: the device's own; on the CPU, whose generator is another, those that the device drew."""
        drawn = make(self.device) if self._replay is None else self._replay[len(self.drawn)].clone()
        self.drawn.append(drawn.clone())
        return drawn


def scalar(number: int) -> int | float:
    return [1, 2, 3, -1, -2, 0, 2.0, -3.0, 1.0][number % 9]


def bounded(tensor: Tensor) -> Tensor:
    return tensor.clamp(-BOUND, BOUND)


def wrapped(tensor: Tensor) -> Tensor:
    """For what grows fast: exact in float32 and integers."""
    return tensor.remainder(2 * BOUND) - BOUND


# An operator of a program takes the machine, the instruction, and the tensors that its first two numbers mean.
_BINARY = (torch.add, torch.sub, torch.maximum, torch.minimum)
_UNARY = (torch.neg, torch.abs, torch.relu, torch.sign, torch.clone)


def new(m: Machine, i: Instruction, x: Tensor, y: Tensor) -> None:
    m.keep(bounded(_BINARY[i.c % 4](x, m.like(x, i.b))))


def unary(m: Machine, i: Instruction, x: Tensor, y: Tensor) -> None:
    m.keep(_UNARY[i.b % 5](x))


def with_number(m: Machine, i: Instruction, x: Tensor, y: Tensor) -> None:
    number = scalar(i.b)
    m.keep(bounded(torch.add(x, int(number)) if i.c % 2 else x * int(number)))


def nonlinear(m: Machine, i: Instruction, x: Tensor, y: Tensor) -> None:
    if x.dtype == torch.float32:
        m.keep((torch.sigmoid(x) * 8 if i.b % 2 else torch.tanh(x) * 4).round())


def in_place(m: Machine, i: Instruction, x: Tensor, y: Tensor) -> None:
    kind = i.c % 7
    if kind == 0:
        x.add_(int(scalar(i.b))).clamp_(-BOUND, BOUND)
    elif kind == 1:
        x.mul_(int(scalar(i.b))).clamp_(-BOUND, BOUND)
    elif kind == 2:
        x.fill_(i.b % 5)
    elif kind == 3:
        x.neg_()
    elif kind == 4:
        x.copy_(m.like(x, i.b))
    elif kind == 5 and y.dim() <= x.dim() and y.dtype == x.dtype:
        x.sub_(y).clamp_(-BOUND, BOUND)  # may not broadcast: an error on every device
    else:
        x[..., :1].zero_()


def out(m: Machine, i: Instruction, x: Tensor, y: Tensor) -> None:
    if i.c % 3 == 0:
        result = torch.empty(0, dtype=x.dtype, device=m.device)
        torch.neg(x, out=result)
        m.keep(result)
    else:
        y = m.like(x, i.b)  # may overlap in part: an error on every device
        torch.maximum(x, m.like(x, i.c), out=y)


def view(m: Machine, i: Instruction, x: Tensor, y: Tensor) -> None:
    kind = i.b % 8
    if kind == 0 and x.dim():
        x = x.select(i.c % x.dim(), 0) if x.shape[i.c % x.dim()] else x
    elif kind == 1 and x.dim():
        x = x[i.c % (x.shape[0] + 1) :]
    elif kind == 2 and x.dim():
        x = x[..., :: 1 + i.c % 3]
    elif kind == 3:
        x = x.transpose(0, -1) if x.dim() > 1 else x.unsqueeze(0)
    elif kind == 4 and x.is_contiguous():
        x = x.view(-1)
    elif kind == 5 and x.dim() == 2:
        x = x.diagonal()
    elif kind == 6 and x.dim() and x.shape[-1] % 2 == 0 and x.is_contiguous():
        x = x.unflatten(-1, (2, -1)) if x.dim() < 4 and x.shape[-1] else x
    elif kind == 7:
        x = x.detach()
    m.keep(x)


def broadcast(m: Machine, i: Instruction, x: Tensor, y: Tensor) -> None:
    if x.dim() < 3:
        m.keep(bounded(x.expand(2, *x.shape) + x))


def convert(m: Machine, i: Instruction, x: Tensor, y: Tensor) -> None:
    m.keep(x.to([torch.float32, torch.int64, torch.bfloat16, torch.int32][i.b % 4]))


def reduce(m: Machine, i: Instruction, x: Tensor, y: Tensor) -> None:
    if not x.dim() or not x.numel() or x.dtype == torch.bfloat16:
        return
    dim = i.b % x.dim()
    kinds: list[Callable[[], Tensor]] = [
        lambda: wrapped(x.sum(dim)).to(x.dtype),
        lambda: x.amax(dim),
        lambda: wrapped(x.cumsum(dim)),
        lambda: x.sort(dim=dim, stable=True).values,
        lambda: x.flip(dim),
    ]
    m.keep(kinds[i.c % 5]())


def product(m: Machine, i: Instruction, x: Tensor, y: Tensor) -> None:
    if x.dtype == y.dtype == torch.float32 and x.dim() == y.dim() == 2 and x.shape[1] == y.shape[0]:
        m.keep(wrapped(x @ y))


def choose(m: Machine, i: Instruction, x: Tensor, y: Tensor) -> None:
    m.keep(torch.where(x > i.c % 3, x, m.like(x, i.b)))


def take(m: Machine, i: Instruction, x: Tensor, y: Tensor) -> None:
    if x.dim() and x.shape[0]:
        index = torch.arange(3, device=m.device).mul(1 + i.b % 3).remainder(x.shape[0])
        m.keep(x.index_select(0, index) if i.c % 2 else x[index])


def put(m: Machine, i: Instruction, x: Tensor, y: Tensor) -> None:
    if x.dim() and x.shape[0] > 1:
        x.index_fill_(0, torch.tensor([0, 1], device=m.device)[i.c % 2 :], i.b % 4)


def join(m: Machine, i: Instruction, x: Tensor, y: Tensor) -> None:
    if x.dim() and x.numel() < 200:
        m.keep(torch.cat([x, m.like(x, i.b)], i.c % x.dim()))


def random(m: Machine, i: Instruction, x: Tensor, y: Tensor) -> None:
    shape = [(5,), (4, 6), (3, 4), (6, 4)][i.a % 4]
    kinds: list[Callable[[str], Tensor]] = [
        lambda device: torch.randint(-4, 5, shape, device=device).float(),
        lambda device: torch.rand(shape, device=device).mul(8).floor(),
        lambda device: torch.randn(shape, device=device).clamp(-3, 3).round(),
        lambda device: torch.nn.functional.dropout(torch.ones(shape, device=device), 0.5),
    ]
    m.keep(m.draw(kinds[i.b % 4]))


def die(m: Machine, i: Instruction, x: Tensor, y: Tensor) -> None:
    if len(m.tensors) > 2:
        del m.tensors[i.a % len(m.tensors)]


def step(m: Machine, i: Instruction, x: Tensor, y: Tensor) -> None:
    if m.device == "hpu":
        import habana_frameworks.torch.core as htcore

        htcore.mark_step()


def host_copy(m: Machine, i: Instruction, x: Tensor, y: Tensor) -> None:
    x.copy_(torch.full(x.shape, i.b % 7 - 3))


def read(m: Machine, i: Instruction, x: Tensor, y: Tensor) -> None:
    """A value becomes a number of the program."""
    number = int(x.to(torch.int64).sum().item()) % 5
    m.events.append(number)
    m.keep(bounded(y + number))


def branch(m: Machine, i: Instruction, x: Tensor, y: Tensor) -> None:
    if x.numel() and x.amax() > i.c % 4:
        m.events.append("then")
        y.neg_()
    else:
        m.events.append("else")
        m.keep(bounded(y + y))


def select(m: Machine, i: Instruction, x: Tensor, y: Tensor) -> None:
    """A size that depends on values."""
    chosen = x[x > i.b % 3]
    m.events.append(tuple(chosen.shape))
    m.keep(chosen)


RECORDED = (
    new,
    unary,
    with_number,
    nonlinear,
    in_place,
    in_place,
    out,
    view,
    view,
    broadcast,
    convert,
    reduce,
    product,
    choose,
    take,
    put,
    join,
    random,
    die,
)
ENDING = (step, host_copy, read, branch, select)  # these end a graph
_BY_NAME = {function.__name__: function for function in (*RECORDED, *ENDING)}
NAMES = tuple(dict.fromkeys(function.__name__ for function in (*RECORDED, *ENDING)))
RECORDED_NAMES = tuple(function.__name__ for function in RECORDED)


def run(program: list[Instruction], device: str, seed: int, replay: list[Tensor] | None = None) -> Machine:
    """Runs the program; its tensors are left on the device."""
    m = Machine(device, seed, replay)
    for instruction in program:
        try:
            _BY_NAME[instruction.name](m, instruction, m.any(instruction.a), m.any(instruction.b))
        except (RuntimeError, IndexError) as error:
            m.events.append(type(error).__name__)
    return m
