"""The line of the script that issued an operator: in errors and events, through libraries, in backward."""

import contextlib
import functools
import threading
import weakref

import pytest
import torch

from openhpu import _C

from .support import in_threads, line, listening


@pytest.fixture
def reads():
    """The lines of blocking reads, as they happen."""
    lines = []
    with listening(("blocking_read", lambda event: lines.append(event.site))):
        yield lines


def test_the_line_is_the_callers(reads):
    """Not that of a frame of PyTorch's, and of a helper or a thread of the script its own."""

    def helper(x):
        return x.cpu(), line()

    x = torch.ones(3, device="hpu")
    x.sum().item()
    assert reads == [(__file__, line() - 1)]
    reads.clear()
    repr(x)  # reads inside torch/_tensor_str.py
    expected = line() - 1
    assert set(reads) == {(__file__, expected)}
    reads.clear()
    for _, expected in (helper(x), *in_threads(lambda: helper(x))):
        assert reads.pop(0) == (__file__, expected)
    assert not reads


def test_each_iteration_and_each_line_is_told_apart(reads):
    x = torch.ones(3, device="hpu")
    for _ in range(2):
        x.cpu()
        x.tolist()
    start = line() - 2
    assert [number for _, number in reads] == [start, start + 1] * 2


@pytest.mark.usefixtures("strict_indices")
def test_an_error_in_the_second_of_two_equal_lines_names_the_second():
    table = torch.ones(3, 2, device="hpu")
    good, bad = torch.zeros(2, dtype=torch.long, device="hpu"), torch.full((2,), 9, device="hpu")
    table[0]
    torch.nn.functional.embedding(good, table)
    torch.nn.functional.embedding(good, table)
    torch.nn.functional.embedding(bad, table)
    expected = line() - 1
    with pytest.raises(IndexError, match=f"line {expected}\\b"):
        torch.hpu.synchronize()


def test_a_line_is_known_once(reads):
    """However often it runs, in however many code objects and threads; of code from a string by its own name."""
    x = torch.ones(2, device="hpu")

    def work():
        for _ in range(50):
            exec(compile("x.cpu()\n\n(x + x).cpu()", "<made again>", "exec"), {"x": x})

    work()
    assert reads == [("<made again>", 1), ("<made again>", 3)] * 50
    before = _C.site_count()
    for _ in range(3):
        in_threads(work)
    assert _C.site_count() == before
    assert set(reads) == {("<made again>", 1), ("<made again>", 3)}


def test_code_that_is_gone_is_not_kept_and_not_mistaken(reads):
    """Code objects are made at addresses where others were."""
    gone = []
    for i in range(200):
        code = compile("\n" * i + "x.cpu()", f"<made {i % 3}>", "exec")
        exec(code, {"x": torch.ones(2, device="hpu")})
        gone.append(weakref.ref(code))
        del code
        assert reads[-1] == (f"<made {i % 3}>", i + 1)
    assert not any(reference() for reference in gone)


def test_an_operator_of_a_librarys_init_that_the_interpreter_calls_directly(reads):
    """From Python 3.12 on there is a frame without lines below an __init__ that is called often."""
    probabilities = torch.full((3,), 0.5, device="hpu")
    for _ in range(50):
        torch.distributions.Bernoulli(probabilities, validate_args=True)  # reads whether all are valid
    expected = line() - 1
    assert len(reads) >= 50
    assert set(reads) == {(__file__, expected)}


def test_the_standard_library_between_is_no_line_of_the_script(reads):
    """A with block's helper, decorators, and a thread that runs PyTorch's function."""
    x = torch.ones(3, device="hpu")

    class Reader:
        @functools.singledispatchmethod
        def read(self, value):
            return value.cpu()

        @functools.cached_property
        def value(self):
            return x.cpu()

    with contextlib.ExitStack() as stack:
        stack.callback(torch.Tensor.cpu, x)
    expected = [line() - 2]  # the line of the block
    functools.partial(torch.Tensor.cpu, x)()
    expected.append(line() - 1)
    Reader().read(x)
    expected.append(line() - 12)
    assert Reader().value is not None
    expected.append(line() - 10)
    functools.reduce(lambda _, each: each.cpu(), [x, x])
    expected.append(line() - 1)
    with torch.no_grad(), contextlib.suppress(ValueError):
        x.cpu()
    expected.append(line() - 1)
    thread = threading.Thread(target=x.cpu)
    thread.start()
    thread.join()
    expected.append(0)  # no line of the script is on that thread
    found = [number if file == __file__ else 0 for file, number in ((site or ("", 0)) for site in reads)]
    assert found == expected, (reads, expected)
