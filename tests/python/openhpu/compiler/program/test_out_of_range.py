"""Recipes whose indices are out of range."""

import ctypes
import faulthandler
import mmap
import multiprocessing
import signal

import pytest
import torch

from tests.indices import BAD, EVERY, FAR, WRAPS, WRITES, operands, padded
from tests.python.openhpu.compiler.recorder import Recorder

pytestmark = [
    pytest.mark.filterwarnings("ignore:index_reduce:UserWarning"),
    pytest.mark.filterwarnings("ignore:The reduce argument"),
]


def good(arguments):
    """The same with indices that exist, so that the CPU can record it."""
    x, dim, index, *others = arguments
    return [x, dim, index.clamp(0, max(x.shape[dim] - 1, 0)), *others]


class Case:
    """Calls recorded with indices that exist, to be run with those that do not."""

    def __init__(self, *calls, **options):
        self.calls = [(function, arguments, good(arguments)) for function, arguments in calls]
        with Recorder() as self.recorder:
            results = [function(*usable) for function, _, usable in self.calls]
        self.description = self.recorder.description(live=results, **options) | {"lenient": True}

    def check(self, recipe):
        for _, arguments, usable in self.calls:
            usable[2].copy_(arguments[2])
        results = recipe.run(recipe.inputs(self.recorder.storages))
        by_slot = dict(zip((place.slot for place in recipe.manifest.outputs), results, strict=False))
        wanted = [padded(f, f.__name__ in WRAPS)(*arguments) for f, arguments, _ in self.calls]
        for (function, arguments, _), expected, slot in zip(self.calls, wanted, sorted(by_slot), strict=True):
            torch.testing.assert_close(
                by_slot[slot],
                expected,
                rtol=1e-6,
                atol=1e-6,
                equal_nan=True,
                msg=lambda text, f=function, a=arguments: f"{f.__name__} along {a[1]} of {tuple(a[0].shape)}: {text}",
            )
        return results[len(recipe.manifest.outputs) :]


def missing(function, arguments):
    x, dim, index, *_ = arguments
    size = x.shape[dim]
    return (index < (-size if function.__name__ in WRAPS else 0)) | (index >= size)


@pytest.mark.parametrize("threads", [1, 2])
def test_reads_give_zeros_writes_are_dropped_and_both_are_counted(compiled, threads):
    calls = [(f, operands(f, dim)) for dim in range(3) for f in EVERY]
    case = Case(*calls, threads=threads)
    (recipe,) = compiled(case.description)
    counts = case.check(recipe)
    assert len(recipe.manifest.counted) == len(calls)
    for (function, arguments), count in zip(calls, counts, strict=True):
        bad = missing(function, arguments)
        padding = int((bad & (arguments[2] == -1)).sum())
        assert (count.item() & 0xFFFFFFFF, count.item() >> 32) == (int(bad.sum()), padding), function.__name__


def test_extremes_dtypes_dimensions_of_one_row_and_wide_rows(compiled):
    names = ("index_select", "gather", "index", "index_copy", "index_put", "scatter")
    reads_and_writes = [f for f in EVERY if f.__name__ in names]
    calls = [(f, operands(f, 1, bad=BAD)) for f in EVERY]
    for dtype in (torch.bfloat16, torch.float64, torch.int8, torch.int64, torch.bool):
        calls += [(f, operands(f, 2, dtype=dtype)) for f in reads_and_writes]
    for function in EVERY:
        x, dim, index, *source = operands(function, 1)
        index = index.clamp(-1, 1)
        calls.append((function, (x[:, :1].contiguous(), dim, index, *source)))
    rows = torch.arange(5 * 300.0).view(5, 300)
    for function in EVERY:
        if function.__name__.startswith("index") and function.__name__ != "index":
            source = [-torch.rand(4, 300)] if function.__name__ != "index_select" else []
            out = 9 if function.__name__ in WRAPS else -1
            calls.append((function, (rows, 0, torch.tensor([3, out, 7, 0]), *source)))
    case = Case(*calls)
    (recipe,) = compiled(case.description)
    case.check(recipe)


PAGE = mmap.PAGESIZE
libc = ctypes.CDLL(None, use_errno=True)
libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


def between_pages(tensor, at_the_end):
    """A copy of `tensor` with inaccessible pages on both sides, of which one begins where the tensor ends."""
    room = -(-tensor.nbytes // PAGE) * PAGE
    memory = mmap.mmap(-1, room + 2 * PAGE)
    copy = torch.frombuffer(
        memory, dtype=tensor.dtype, count=tensor.numel(), offset=PAGE + (room - tensor.nbytes if at_the_end else 0)
    ).view(tensor.shape)
    copy.copy_(tensor)
    begin = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for page in (begin, begin + PAGE + room):
        assert libc.mprotect(page, PAGE, 0) == 0, ctypes.get_errno()
    return copy


def ended(work):
    """How a child process that does `work` ends: 0, or minus a signal's number."""

    def quietly():
        faulthandler.disable()  # a crash is an answer here
        work()

    child = multiprocessing.get_context("fork").Process(target=quietly, daemon=True)
    child.start()
    child.join(60)
    return child.exitcode


IN_PLACE = {
    "index_put": lambda x, dim, index, source: torch.ops.aten.index_put_.default(x, [None] * dim + [index], source),
    "index_put_accumulate": lambda x, dim, index, source: torch.ops.aten.index_put_.default(
        x, [None] * dim + [index], source, True
    ),
    **{name: getattr(torch.Tensor, f"{name}_") for name in ("index_copy", "index_add", "scatter", "scatter_add")},
}


@pytest.mark.parametrize("threads", [1, 2])
def test_memory_beside_a_tensor_is_never_touched(compiled, threads):
    calls = [
        (IN_PLACE.get(f.__name__, f), operands(f, dim, bad=(-7, -1, 6, 7, 9, 2**31, FAR.max, FAR.min)))
        for f in EVERY
        if f.__name__ in IN_PLACE or f.__name__ not in WRITES
        for dim in (0, 2)
    ]
    case = Case(*calls, threads=threads)
    (recipe,) = compiled(case.description)
    for _, arguments, usable in case.calls:
        usable[2].copy_(arguments[2])
    inputs = recipe.inputs(case.recorder.storages)
    for at_the_end in (False, True):
        guarded = [between_pages(tensor, at_the_end) for tensor in inputs]
        assert ended(lambda guarded=guarded: recipe.run(guarded)) == 0
        beyond = guarded[0].data_ptr() + (guarded[0].nbytes if at_the_end else -1)
        assert ended(lambda beyond=beyond: ctypes.string_at(beyond, 1)) == -signal.SIGSEGV  # it would have been noticed
