"""Forked processes: before the first use they are free, after it they get a clear error; loaders work."""

import pytest


def test_a_child_forked_after_the_first_use_is_told_to_spawn_and_the_parent_goes_on(script):
    code = """
        x = torch.ones(3, device="hpu")
        torch.hpu.synchronize()
        pid = os.fork()
        if pid == 0:
            torch.manual_seed(1)  # of the CPU alone
            for use in (
                lambda: torch.ones(1, device="hpu"), lambda: torch.ones(1).to("hpu"), lambda: x + 1,
                lambda: x.cpu(), lambda: torch.hpu.synchronize(), lambda: x.sum().item(), lambda: torch.hpu.Stream(),
                lambda: torch.empty(1).pin_memory().to("hpu"), lambda: torch.hpu.current_stream().synchronize(),
            ):
                try:
                    use()
                except RuntimeError as error:
                    assert "forked" in str(error), error
                    assert "spawn" in str(error), error
                else:
                    os._exit(1)
            if not torch.hpu._is_in_bad_fork() or torch.hpu.is_initialized():
                os._exit(2)
            torch.ones(2) + 1  # the CPU is unaffected
            del x
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), (x + 1).tolist())
    """
    assert script(code).out == "0 [2.0, 2.0, 2.0]"


EVERYTHING = """
    from openhpu import counters

    made = torch.ones(1000, device="hpu")
    for _ in range(2):
        known = made + 1
        htcore.mark_step()
    held = {
        "view": made[2:5], "pinned": torch.ones(10).pin_memory(), "generator": torch.Generator("hpu"),
        "stream": torch.hpu.Stream(), "parameter": torch.nn.Parameter(torch.ones(5, device="hpu")),
    }
    held["event"] = torch.hpu.Event(enable_timing=True)
    held["event"].record()
    weight = torch.ones(4, 4, device="hpu")
    watched = torch.hpu.wrap_in_hpu_graph(torch.nn.Linear(4, 4).to("hpu").requires_grad_(False))
    with torch.no_grad():
        for _ in range(3):
            watched(weight)
    held["watched"] = watched
    graph, held["shared"] = capture(lambda: made * 2)
    graph.replay()
    held["graph"] = graph
    held["compiled"] = torch.compile(lambda x: (x * 3).relu(), backend="hpu_backend")
    held["of compiled"] = held["compiled"](made)
    torch.hpu.synchronize()
    held["backward"] = (held["parameter"] * 2).sum()
    held["pending"] = made + 1

    def child(leave):
        signal.alarm(100)  # a child that hangs is ended, and the test fails
        torch._dynamo.reset()
        del globals()["made"], globals()["known"], globals()["weight"], globals()["watched"], globals()["graph"]
        while held:
            held.popitem()
        gc.collect()
        leave(0)

    def ends(leave):
        pid = os.fork()
        if pid == 0:
            child(leave)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
"""

# A thread that waits for the device: three flushed graphs of more than 4096 operators are in flight.
LOCKED = """
    _C.block_queue(0)
    before = counters()["graphs_flushed"]

    def flush():
        for _ in range(4):
            known = made
            for _ in range(1500):
                known = known + 1
            htcore.mark_step()

    thread = threading.Thread(target=flush)
    thread.start()
    while counters()["graphs_flushed"] < before + 4:
        pass
    print(ends(os._exit), ends(sys.exit))
    _C.unblock_queue(0)
    thread.join()
"""
CAPTURE = """
    held["open"] = torch.hpu.HPUGraph()
    held["open"].capture_begin()
    held["pending"] = made + 1
"""


@pytest.mark.parametrize("lazy", [False, True])
def test_a_child_frees_objects_of_each_kind(script, lazy):
    """What was recorded, and an unfinished capture, also while another thread holds the recorder."""
    code = EVERYTHING + "    print(ends(os._exit), ends(sys.exit))\n"
    if lazy:
        code += LOCKED + CAPTURE + LOCKED + '    held["open"].capture_end()\n'
    code += '    print(held["pending"].sum().item(), held["backward"].item(), held["of compiled"].sum().item())'
    # Python warns of a fork beside threads, which is what this is about.
    result = script(code, warnings="ignore", PT_HPU_LAZY_MODE=str(int(lazy)), OPENHPU_COMPILE="off")
    assert result.out.splitlines() == ["0 0"] * (3 if lazy else 1) + ["2000.0 10.0 3000.0"]


def test_a_child_ends_while_the_publisher_of_its_parent_writes(script):
    code = """
        from openhpu.observe.smi import publisher

        warnings.simplefilter("ignore", DeprecationWarning)
        torch.ones(1, device="hpu")
        with publisher._publisher._lock:  # as its thread does at each look
            pid = os.fork()
            if pid == 0:
                signal.alarm(100)
                sys.exit(0)
            print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    """
    assert script(code).out == "0"
