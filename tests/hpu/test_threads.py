"""Python threads and the device: waits release the interpreter lock, any thread may submit and free."""

import threading
from functools import partial

import pytest
import torch

from openhpu import _C

from .support import in_threads, make, train_step


def test_a_wait_on_one_thread_does_not_stop_another_from_submitting(gate):
    x = torch.zeros(5, device="hpu")
    x + 1
    started, results = threading.Event(), []

    def wait():
        started.set()
        torch.hpu.synchronize()
        results.append("waited")

    with gate:
        waiter = threading.Thread(target=wait)
        waiter.start()
        started.wait()
        y = x + 1
        assert results == []
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
    def work(name):
        model, optimizer, x, target = build[name]
        return [train_step(model, optimizer, x, target).item() for _ in range(5)]

    names = ["mlp", "convnet", "gpt"]
    build = {name: make(name) for name in names}
    alone = {name: work(name) for name in names}
    build = {name: make(name) for name in names}
    together = in_threads(*(partial(work, name) for name in names))
    assert dict(zip(names, together, strict=True)) == alone


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

    def program():
        source = torch.ones(1000).pin_memory()
        source.marker = Marker(deaths)
        source.untyped_storage().marker = Marker(deaths)
        x = source.to("hpu", non_blocking=True)
        x.marker = Marker(deaths)
        y = x + 1
        y.untyped_storage().marker = Marker(deaths)
        return y.sum()

    program()
    torch.hpu.synchronize()
    with gate:
        total = program()
    assert total.item() == 2000
    torch.hpu.synchronize()
    assert len(deaths) == 8
    assert set(deaths) == {threading.get_ident()}


def test_an_exception_in_a_python_kernel_reaches_the_script(script):
    code = """
        warnings.filterwarnings("ignore", message="Warning only once for all operators")  # the override is the point
        library = torch.library.Library("aten", "IMPL")
        fail = False

        def trunc(x):
            if fail:
                raise ValueError("from python")
            return torch.full_like(x, 7.0)

        library.impl("trunc", trunc, "CPU", allow_override=True)
        x = torch.ones(4, device="hpu")
        torch.trunc(x)
        fail = True
        torch.trunc(x)
        try:
            torch.hpu.synchronize()
        except (RuntimeError, ValueError) as error:
            print("from python" in str(error), "aten::trunc" in str(error))
        fail = False
        print(torch.trunc(x).sum().item())
        """
    assert script(code).out.split() == ["True", "True", "28.0"]


@pytest.mark.parametrize(
    "work", ["x @ x", "F.linear(x, x)", "F.conv2d(x[None, None], w)[0, 0]", "x.to(torch.bfloat16) @ y"]
)
def test_a_program_may_end_with_work_in_the_queue(script, work):
    """Of libraries whose own objects are destroyed when the process exits, such as oneDNN's cache."""
    code = f"""
        from torch.nn import functional as F
        x, w = torch.ones(1500, 1500, device="hpu"), torch.ones(1, 1, 9, 9, device="hpu")
        y = x.to(torch.bfloat16)
        for _ in range(30):
            {work}
        """
    script(code)


def test_a_program_may_end_with_an_error_nobody_asked_for(script):
    code = """
        table, index = torch.ones(3, 2, device="hpu"), torch.zeros(2, dtype=torch.long, device="hpu")
        torch.nn.functional.embedding(index, table)
        torch.nn.functional.embedding(index + 9, table)
        """
    script(code)


def test_threads_that_end_leave_their_commands_to_others():
    """A command is used again, whichever thread issued it: their number doesn't follow the number of threads."""
    x = torch.ones(4, device="hpu")

    def work():
        x + 1
        torch.hpu.synchronize()

    def run(threads):
        for _ in range(threads):
            in_threads(work)

    run(40)
    before = sum(_C.commands())
    run(200)
    assert sum(_C.commands()) < before + 20


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
