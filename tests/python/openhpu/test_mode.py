LOAD = "import os, torch, habana_frameworks.torch as ht\n"


def test_eager_by_default(script):
    result = script(LOAD + "print(ht.core.is_lazy(), ht.utils.internal.is_lazy())")
    assert result.out == "False False"


def test_lazy_mode_records_and_a_step_flushes(script):
    code = """
    import openhpu, torch, habana_frameworks.torch as ht
    for _ in range(2):
        x = torch.ones(2, device="hpu") + 1
        before = openhpu.counters()["graphs_flushed"]
        ht.core.mark_step()
    print(ht.core.is_lazy(), openhpu.counters()["graphs_flushed"] - before, x.sum().item())
    """
    assert script(code, PT_HPU_LAZY_MODE="1", OPENHPU_COMPILE="off").out == "True 1 4.0"


def test_no_thread_of_lazy_mode_outlives_the_exit_handlers(script):
    """One that did would be ended by Python in the middle of the core, which aborts the process."""
    code = """
    import atexit, threading, time
    names = lambda: [thread.name for thread in threading.enumerate() if thread.name == "openhpu-graphs"]
    atexit.register(lambda: print(names()))  # the last of the handlers
    import torch
    from openhpu import _C
    request = _C.next_compile_request
    _C.next_compile_request = lambda: (request(), time.sleep(0.3))[0]  # a thread that takes its time to end
    import habana_frameworks.torch
    print(names())
    """
    assert script(code, PT_HPU_LAZY_MODE="1").out.splitlines() == ["['openhpu-graphs']", "[]"]


def test_the_variable_may_be_set_between_torch_and_habana(script):
    code = """
    import os, torch
    import habana_frameworks.autoload as autoload
    getattr(autoload, "__autoload")()
    os.environ["PT_HPU_LAZY_MODE"] = "1"
    import habana_frameworks.torch as ht
    print(ht.core.is_lazy())
    """
    assert script(code).out == "True"


def test_a_late_change_is_an_error(script):
    for use in ("ht.core.mark_step()", "ht.utils.internal.is_lazy()"):
        result = script(LOAD + f"os.environ['PT_HPU_LAZY_MODE'] = '1'; {use}", fails=True)
        assert result.last.startswith(
            "RuntimeError: PT_HPU_LAZY_MODE was changed to 1 after the mode had been read as 0"
        )


def test_a_change_after_the_first_use_of_a_device_is_an_error(script):
    code = """
    import os, torch
    import habana_frameworks.autoload as autoload
    getattr(autoload, "__autoload")()
    torch.ones(1, device="hpu")
    os.environ["PT_HPU_LAZY_MODE"] = "1"
    import habana_frameworks.torch
    """
    assert "PT_HPU_LAZY_MODE was changed to 1" in script(code, fails=True).last


def test_spelling_out_the_default_is_no_change(script):
    assert script(LOAD + "os.environ['PT_HPU_LAZY_MODE'] = '0'; ht.core.mark_step()").out == ""
