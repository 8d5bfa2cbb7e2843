"""Ctrl-C ends any wait for the device or the compiler; what was submitted runs, and the device works on.

A thread sends SIGINT once the script waits for what a gate holds back. Each script runs in a process of its own.
"""

import pytest

COMMON = """
    faulthandler.dump_traceback_later(120, exit=True)  # a wait that doesn't end
    x = torch.arange(1000.0).to("hpu")
    big = torch.arange(400_000.0)
    for _ in range(2 * (os.environ.get("OPENHPU_COMPILE") in (None, "off"))):
        assert (x * 2 + 1).sum().item() == 1_000_000
        y = big.to("hpu").cpu()
        torch.hpu.synchronize()

    def interrupted(call, progress=lambda: 0):
        # The call, during which Ctrl-C is pressed once it has come to rest: whether that ended it.
        begun = threading.Event()
        def press():
            begun.wait()
            rest, before = 0, progress()
            while rest < 6:
                time.sleep(0.05)
                rest, before = (rest + 1, before) if progress() == before else (0, progress())
            os.kill(os.getpid(), signal.SIGINT)
        thread = threading.Thread(target=press)
        thread.start()
        try:
            begun.set()
            call()
            return False
        except KeyboardInterrupt:
            return True
        finally:
            thread.join()

    def works():
        for _ in range(2):
            assert (x * 2 + 1).sum().item() == 1_000_000
            torch.testing.assert_close((x.view(10, 100) @ x.view(100, 10)).cpu(),
                                       torch.arange(1000.0).view(10, 100) @ torch.arange(1000.0).view(100, 10))
"""

# What waits for the device, while a gate holds its worker.
WAITS = {
    "synchronize": "torch.hpu.synchronize()",
    "item": "total.item()",
    "to the host": "x.cpu()",
    "into a host tensor": "host.copy_(x)",
    "from the host": "target.copy_(big)",
    "stream": "torch.hpu.current_stream().synchronize()",
    "event": "event.synchronize()",
    "first sight": "torch.linalg.det(x.view(10, 100) @ x.view(100, 10))",
    "data dependent": "x.nonzero()",
    "empty_cache": "torch.hpu.empty_cache()",
    "hook of a backward": "read_gradient()",
}


def test_an_interrupt_ends_a_wait_for_the_device(script):
    """One script for all: the device works on after each."""
    code = f"""
    host, target, total = torch.zeros(1000), torch.zeros(400_000, device="hpu"), x.sum()
    torch.hpu.synchronize()
    event = torch.hpu.Event()
    def read_gradient():
        y = torch.ones(1000, device="hpu", requires_grad=True) * 2
        y.register_hook(lambda gradient: gradient.sum().item())
        y.sum().backward()
    waits = {{{", ".join(f"{name!r}: lambda: {wait}" for name, wait in WAITS.items())}}}
    for name, wait in waits.items():
        _C.block_queue(0)
        total = x.sum()
        event.record()
        assert interrupted(wait), name
        before = host.clone()
        _C.unblock_queue(0)
        torch.hpu.synchronize()
        # A copy whose wait was ended does not write later into what the script has again.
        assert torch.equal(host, before), name
        assert (before == 0).all(), name
        assert target.sum().item() == 0, name
        assert total.item() == 499500, name
        works()
    """
    script(COMMON + code)


def test_an_interrupt_ends_a_submission_to_a_full_queue(script):
    code = """
    y = torch.zeros(1000, device="hpu")
    y.add_(1)
    torch.hpu.synchronize()
    issued = 0
    def fill():
        global issued
        while True:
            y.add_(1)
            issued += 1
    _C.block_queue(0)
    assert interrupted(fill, lambda: issued)
    _C.unblock_queue(0)
    done = y[0].item() - 1
    assert issued >= 4000, (issued, done)
    assert done in (issued, issued + 1), (issued, done)  # the interrupt may have come after the last
    assert (y == done + 1).all().item()
    works()
    """
    script(COMMON + code, PT_HPU_LAZY_MODE="0")


@pytest.mark.parametrize("policy", ["sync", "background"])
def test_an_interrupt_ends_a_wait_for_the_compiler(script, policy):
    """The graph runs operator by operator, and what follows works."""
    code = f"""
    from openhpu.compiler.client import client as graphs
    torch.use_deterministic_algorithms({policy != "sync"})
    total, begun = torch.zeros(1000).to("hpu"), 0
    torch.hpu.synchronize()
    service = graphs._compilations._service
    def stop_compiler():
        # The compile process hangs with its next graph.
        while not service._greeted:
            time.sleep(0.01)
        os.killpg(service._process.pid, signal.SIGSTOP)
    def train():
        global begun
        while begun < 100:
            begun += 1
            total.add_((x * 3 - 1).abs() + x)
            htcore.mark_step()
    threading.Thread(target=stop_compiler, daemon=True).start()
    waiting = lambda: begun if _C.awaited_recipes() and service._current else time.monotonic()
    assert interrupted(train, waiting)
    assert begun < 100
    assert torch.equal(total.cpu(), begun * ((torch.arange(1000.0) * 3 - 1).abs() + torch.arange(1000.0)))
    assert interrupted(openhpu.wait_for_recipes)
    os.killpg(service._process.pid, signal.SIGKILL)
    assert openhpu.wait_for_recipes(60)
    """
    environment = {"PT_HPU_LAZY_MODE": "1", "OPENHPU_COMPILE": policy, "PT_HPU_RECIPE_CACHE_CONFIG": ""}
    script(COMMON + code, warnings="always", **environment)


def test_an_interrupt_that_meets_an_event_listener_is_not_lost(script):
    code = """
    from openhpu import events
    def listen(event):
        signal.raise_signal(signal.SIGINT)
        for _ in range(1000):
            pass
    subscription = events.subscribe("blocking_read", listen)
    with pytest.raises(KeyboardInterrupt):
        x.sum().item()
        for _ in range(1000):
            pass
    events.unsubscribe(subscription)
    works()
    """
    assert script(COMMON + code).err == ""


@pytest.mark.parametrize("where", ["before", "after_in_parent", "after_in_child"])
def test_an_interrupt_during_a_fork_is_not_lost(script, where):
    """Python drops what a function of os.register_at_fork raises. The other process hears nothing."""
    code = f"""
    import functools, os, signal, time
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.register_at_fork({where}=functools.partial(signal.raise_signal, signal.SIGINT))
    from openhpu import _C

    def heard():
        try:
            time.sleep(20)
        except KeyboardInterrupt:
            return True

    child = os.fork()
    if child == 0:
        os._exit({where!r} == "after_in_child" and not heard())
    if {where!r} != "after_in_child":
        assert heard()
    assert os.waitpid(child, 0)[1] == 0
    """
    assert script(code, bare=True).err == ""


def test_a_fork_leaves_a_handler_of_the_scripts_own(script):
    code = """
    import os, pathlib, signal
    from openhpu import _C
    def handled():
        lines = pathlib.Path("/proc/self/status").read_text().splitlines()
        return [line for line in lines if line.startswith(("SigBlk", "SigIgn", "SigCgt"))]
    for handler in signal.SIG_IGN, signal.SIG_DFL, lambda number, frame: None:
        signal.signal(signal.SIGINT, handler)
        before = handled()
        child = os.fork()
        same = signal.getsignal(signal.SIGINT) == handler and handled() == before
        if child == 0:
            os._exit(not same)
        assert same
        assert os.wait()[1] == 0
    """
    assert script(code, bare=True).err == ""
