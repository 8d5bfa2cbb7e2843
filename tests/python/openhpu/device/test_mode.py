import textwrap

import pytest

LOAD = "import os, torch, habana_frameworks.torch as ht\n"


def test_eager_by_default_and_spelling_it_out_is_no_change(script):
    spelt = "os.environ['PT_HPU_LAZY_MODE'] = '0'; ht.core.mark_step()\n"
    result = script(LOAD + spelt + "print(ht.core.is_lazy(), ht.utils.internal.is_lazy())")
    assert result.out == "False False"


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
    torch.ones(3, device="hpu")
    print(names())
    """
    assert script(code, PT_HPU_LAZY_MODE="1").out.splitlines() == ["[]", "['openhpu-graphs']", "[]"]


BETWEEN = """
    import os, torch
    import habana_frameworks.autoload as autoload
    getattr(autoload, "__autoload")()
    os.environ["PT_HPU_LAZY_MODE"] = str(1 - int(os.environ["PT_HPU_LAZY_MODE"]))
    import habana_frameworks.torch as ht
    print(ht.core.is_lazy())
"""


@pytest.mark.parametrize("before", ["0", "1"])
def test_the_variable_may_be_set_between_torch_and_habana(script, before):
    assert script(BETWEEN, PT_HPU_LAZY_MODE=before).out == str(before == "0")


def test_a_late_change_is_ignored_with_one_warning(script):
    code = """
    import warnings
    for value in ("1", "2"):  # even one that is not allowed
        os.environ["PT_HPU_LAZY_MODE"] = value
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for _ in range(2):
                ht.core.mark_step()
                print(ht.utils.internal.is_lazy(), ht.core.is_lazy())
        for warning in caught:
            print(warning.category.__name__, os.path.basename(warning.filename), warning.message)
    """
    lines = script(LOAD + textwrap.dedent(code)).out.splitlines()
    assert lines.count("False False") == 4
    (said,) = (line for line in lines if line != "False False")
    assert "RuntimeWarning" in said
    assert "PT_HPU_LAZY_MODE was changed to 1 after the mode had been read as 0" in said
    assert "stays in eager mode" in said


def test_lazy_mode_stays_lazy(script):
    code = LOAD + "os.environ['PT_HPU_LAZY_MODE'] = '0'; ht.core.mark_step(); print(ht.core.is_lazy())"
    result = script(code, warnings="always", PT_HPU_LAZY_MODE="1", OPENHPU_COMPILE="off")
    assert result.out == "True"
    assert result.err.count("PT_HPU_LAZY_MODE was changed to 0") == 1


def test_a_change_after_the_first_use_of_a_device_is_a_warning(script):
    used = "    torch.ones(1, device='hpu')\n    os.environ"
    result = script(BETWEEN.replace("    os.environ", used, 1), warnings="always", PT_HPU_LAZY_MODE="0")
    assert result.out == "False"
    assert result.err.count("PT_HPU_LAZY_MODE was changed to 1") == 1
