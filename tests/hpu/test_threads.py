"""Python threads and the device: waits release the interpreter lock, any thread may submit and free."""

import threading
from functools import partial

import pytest
import torch

from openhpu import _C

from .support import in_place_of, in_threads, make, train_step


def test_a_wait_on_one_thread_does_not_stop_another_from_submitting(gate):
    x = torch.zeros(5, device="hpu")
    x + 1
    started = threading.Event()

    def wait():
        started.set()
        torch.hpu.synchronize()

    with gate:
        waiter = threading.Thread(target=wait)
        waiter.start()
        started.wait()
        y = x + 1
        assert waiter.is_alive()
    waiter.join()
    assert y.tolist() == [1.0] * 5


def test_tensors_may_be_freed_on_other_threads(gate):
    def program():
        x = torch.full((1000,), 3.0, device="hpu")
        box = [x]
        y = x * 2
        del x
        return box, y

    program()
    before = torch.hpu.memory_allocated()
    with gate:
        box, y = program()
        in_threads(box.clear)
        assert torch.hpu.memory_allocated() == before + 4096
    assert y.sum().item() == 6000


def test_threads_may_meet_an_operator_for_the_first_time_together():
    barrier = threading.Barrier(8)

    def work():
        barrier.wait()
        return torch.logaddexp2(torch.zeros(3, 23, device="hpu"), torch.zeros(3, 23, device="hpu")).sum().item()

    assert in_threads(*[work] * 8) == [69.0] * 8


def test_threads_may_train_models_side_by_side():
    def work(made):
        return [train_step(*made).item() for _ in range(5)]

    names = ["mlp", "convnet", "gpt"]
    alone = [work(make(name)) for name in names]
    assert in_threads(*(partial(work, made) for made in [make(name) for name in names])) == alone


def test_a_new_thread_starts_on_the_first_device_and_the_default_stream():
    with torch.hpu.stream(torch.hpu.Stream()):
        seen = in_threads(lambda: (torch.hpu.current_device(), torch.hpu.current_stream().id()))
    assert seen == [(0, 0)]


class Marker:
    """Notes the thread on which it dies."""

    def __init__(self, deaths):
        self.deaths = deaths

    def __del__(self):
        self.deaths.append(threading.get_ident())


def test_python_objects_die_on_threads_of_the_script(gate):
    deaths = []

    def mark(*objects):
        for marked in objects:
            marked.marker = Marker(deaths)

    def program():
        source = torch.ones(1000).pin_memory()
        x = source.to("hpu", non_blocking=True)
        y = x + 1
        mark(source, source.untyped_storage(), x, y.untyped_storage())
        return y.sum()

    program()
    torch.hpu.synchronize()
    with gate:
        total = program()
    assert total.item() == 2000
    torch.hpu.synchronize()
    assert deaths == [threading.get_ident()] * 8


def test_an_exception_in_a_python_kernel_reaches_the_script():
    fail = False

    def trunc(x):
        if fail:
            raise ValueError("from python")
        return torch.full_like(x, 7.0)

    x = torch.ones(4, device="hpu")
    with in_place_of("trunc", trunc):
        torch.trunc(x)
        fail = True
        torch.trunc(x)
        with pytest.raises((RuntimeError, ValueError), match=r"(?s)aten::trunc.*from python|from python.*aten::trunc"):
            torch.hpu.synchronize()
        fail = False
        assert torch.trunc(x).sum().item() == 28


@pytest.mark.parametrize(
    "work", ["x @ x", "F.linear(x, x)", "F.conv2d(x[None, None], w)[0, 0]", "x.to(torch.bfloat16) @ y"]
)
def test_a_program_may_end_with_work_in_the_queue(script, work):
    """Of libraries whose own objects are destroyed when the process exits, such as oneDNN's cache."""
    script(f"""
        from torch.nn import functional as F
        x, w = torch.ones(1500, 1500, device="hpu"), torch.ones(1, 1, 9, 9, device="hpu")
        y = x.to(torch.bfloat16)
        for _ in range(30):
            {work}
    """)


def test_a_program_may_end_with_an_error_nobody_asked_for(script):
    script("""
        table, index = torch.ones(3, 2, device="hpu"), torch.zeros(2, dtype=torch.long, device="hpu")
        torch.nn.functional.embedding(index, table)
        torch.nn.functional.embedding(index + 9, table)
    """)


def test_threads_that_end_leave_their_commands_to_others():
    """A command is used again, whichever thread issued it: their number doesn't follow the number of threads."""
    x = torch.ones(4, device="hpu")

    def commands_after(threads):
        for _ in range(threads):
            in_threads(lambda: (x + 1, torch.hpu.synchronize()))
        return sum(_C.commands())

    before = commands_after(40)
    assert commands_after(200) < before + 20


def test_the_interpreter_ends_where_its_main_thread_waits_last(script):
    """The first thread that waited was another one: it is the main thread that has to come back at the end."""
    code = """
        import signal, sys, threading

        def work():
            import torch
            x = torch.ones(800, 800, device="hpu")
            y = x @ x
            torch.hpu.synchronize()
            return x, y

        class Last:
            def __del__(self):
                assert sys.is_finalizing()
                x, _ = self.tensors
                for _ in range(20):
                    y = x.matmul(x)
                print(y.view(-1)[:2].tolist())

        last = Last()
        thread = threading.Thread(target=lambda: setattr(last, "tensors", work()))
        thread.start()
        thread.join()
        signal.alarm(100)  # instead of a hang
    """
    assert script(code, fresh=True, bare=True).out == "[800.0, 800.0]"


def test_a_host_that_fills_the_queue_lets_other_threads_run(script):
    """It waits for room without Python's lock, which the thread that makes room needs."""
    code = """
    x = torch.zeros(5, device="hpu")
    x.add_(1)  # it is known
    torch.hpu.synchronize()
    submitted = []

    def fill():
        for number in range(3 * 4096):  # more than a queue has room for
            x.add_(1)
            submitted.append(number)

    _C.block_queue(0)
    filler = threading.Thread(target=fill)
    filler.start()
    while len(submitted) < 4090:
        time.sleep(0.01)
    time.sleep(0.3)  # the rest of the room
    assert len(submitted) < 3 * 4096
    _C.unblock_queue(0)
    filler.join()
    print(x.tolist(), len(submitted))
    """
    variables = {"PT_HPU_LAZY_MODE": "0"}
    assert script(code, timeout=100, **variables).out == f"{[3.0 * 4096 + 1] * 5} {3 * 4096}"
