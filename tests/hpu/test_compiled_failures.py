"""A compiler that fails or does not answer: right results, and one warning that says why."""

import pytest

# A program that recurs, and a second one; `done` waits for the compiler and says what ran.
COMMON = """
    x = torch.arange(6.0, device="hpu")
    def first():
        y = (x * 2 + 1).view(2, 3)
        return (y.t() - 1).sum(1).tolist()
    def second():
        return ((x - 1).abs() * 3).tolist()
    FIRST, SECOND = [6.0, 10.0, 14.0], [3.0, 0, 3, 6, 9, 12]
    def repeat(program, expected):
        for _ in range(3):
            assert program() == expected
        openhpu.wait_for_recipes()
        before = openhpu.counters()["recipe_hits"]
        assert program() == expected
        return openhpu.counters()["recipe_hits"] - before
    def children():
        return [pid for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()]
"""
MODE = {"OPENHPU_COMPILE": "background", "warnings": "always"}


@pytest.fixture
def run(script):
    """`script` after COMMON, without a cache of recipes."""
    settings = {"PT_HPU_RECIPE_CACHE_CONFIG": "", **MODE}
    return lambda code, **variables: script(COMMON + code, **settings | variables)


def warnings_in(result):
    return [text for text in result.err.splitlines() if "RuntimeWarning" in text]


def test_compiled_functions_without_a_compiler(run):
    """torch.compile and HPU graphs go on operator by operator, with a warning for each graph."""
    code = """
    f = torch.compile(lambda x: (x * 2 + 1).tanh().sum(), backend="hpu_backend")
    step = torch.hpu.wrap_in_hpu_graph_func(lambda x: (x - 1).abs().sum())
    for _ in range(2):
        for k in range(3):
            y = f(x * k)
            torch.testing.assert_close(y, (x * k * 2 + 1).tanh().sum())
            assert step(x).item() == 11
        openhpu.wait_for_recipes()
    print(len(openhpu.recipes()), openhpu.counters()["graph_replays"] > 0)
    """
    result = run(code, CXX="/bin/false", PT_HPU_LAZY_MODE="0")
    assert result.out == "0 True"
    found = warnings_in(result)
    assert len(found) == 2
    assert all("can't be compiled and runs operator by operator" in text for text in found)


@pytest.mark.parametrize("deterministic", [False, True])
def test_a_flush_waits_for_a_silent_compiler_for_the_deadline_and_once(run, deterministic):
    code = f"""
    from openhpu.compiler.client.service import Service
    Service._turn = lambda self: time.sleep(0.05)  # it takes requests and never answers
    torch.use_deterministic_algorithms({deterministic})
    print([first() == FIRST and second() == SECOND for _ in range(40)].count(True))
    """
    policy = "background" if deterministic else "sync"
    result = run(code, timeout=60, OPENHPU_COMPILE=policy, OPENHPU_COMPILE_DEADLINE="0.5")
    assert result.out == "40"
    (warning,) = warnings_in(result)
    assert "runs operator by operator" in warning
    assert "OPENHPU_COMPILE_DEADLINE" in warning
    assert "<string>:" in warning


def test_no_deadline_is_longer_than_a_day(script):
    code = "    import openhpu, torch; x = torch.ones(2, device='hpu')\n"
    code += "    from openhpu.compiler.client import client as graphs; print(graphs._compilations._service._deadline)"
    assert script(code, OPENHPU_COMPILE_DEADLINE="0", **MODE).out == "86400.0"
    for wrong in ("86401", "inf", "nan", "-1"):
        result = script(code, OPENHPU_COMPILE_DEADLINE=wrong, fails=True, **MODE)
        assert f"OPENHPU_COMPILE_DEADLINE='{wrong}' is not valid" in result.err
        assert "from 0 to 86400" in result.err


def test_a_listener_may_read_tensors_while_the_script_waits_for_the_compiler(run):
    code = """
    seen = []
    def read(*args, **kwargs):
        seen.append((x * 5).sum().item())  # a graph of its own, for which it waits
    openhpu.observe.events.subscribe("graph_compilation", read)
    for _ in range(3):
        assert first() == FIRST
        assert second() == SECOND
    openhpu.wait_for_recipes()
    print(len(seen) > 0, set(seen))
    """
    result = run(code, timeout=120, OPENHPU_COMPILE="sync")
    assert (result.out, warnings_in(result)) == ("True {75.0}", [])


def test_the_recipe_cache_between_processes(run, tmp_path):
    code = "    print(repeat(first, FIRST), len(children()))"
    for processes in (1, 0):  # the second script finds the recipe, and needs no compiler's process
        result = run(code, PT_HPU_RECIPE_CACHE_CONFIG=str(tmp_path / "cache"))
        assert (result.out, warnings_in(result)) == (f"1 {processes}", [])
