"""A request to the compiler is answered whatever happens to it: a script that waits goes on, without the recipe."""

import pytest

CODE = """
    import os, warnings, torch, openhpu
    from openhpu import _C, graphs
    from openhpu.compiler.service import Service
    from openhpu.insight import dumps

    def raise_error(*arguments, **keywords):
        raise OSError("No space left on device")

    class Broken:
        def __init__(self, owner, name, replacement=raise_error):
            self.owner, self.name, self.replacement = owner, name, replacement
        def __enter__(self):
            self.kept = getattr(self.owner, self.name)
            setattr(self.owner, self.name, self.replacement)
        def __exit__(self, *error):
            setattr(self.owner, self.name, self.kept)

    for_core = graphs._for_core
    def with_dtype(*arguments):
        return {**for_core(*arguments), "inputs": [{"slot": 0, "dtype": "no dtype"}]}
    def without_guards(*arguments):
        return {**for_core(*arguments), "guards": [[]]}
    def without_library(*arguments):
        return {**for_core(*arguments), "library": "/nowhere/recipe.so"}

    class Undescribed:
        def __enter__(self):
            _C.break_description()
        def __exit__(self, *error):
            pass

    x = torch.arange(6.0, device="hpu")
    def first():
        return ((x * 2 + 1).view(2, 3).t() - 1).sum(1).tolist()
    def second():
        return ((x - 1).abs() * 3).tolist()
    first(), second()  # with operators that are learned, and graphs that are cut
    torch.hpu.synchronize()
    with BROKEN:
        for _ in range(3):
            assert first() == [6.0, 10.0, 14.0]
        assert openhpu.wait_for_recipes(60)
    hits = openhpu.counters()["recipe_hits"]
    for _ in range(3):
        assert second() == [3.0, 0, 3, 6, 9, 12]
    print(openhpu.counters()["recipe_hits"] - hits > 0, graphs.unanswered(), graphs._compilations._thread.is_alive())
"""

# What breaks, and what the warning says.
CASES = {
    "a description": ("Undescribed()", "it can't be described: for a test"),
    "the service": ('Broken(Service, "request")', "OSError: No space left on device"),
    "reading a recipe": ('Broken(graphs, "_for_core")', "could not be loaded: No space left on device"),
    "a manifest's dtype": ('Broken(graphs, "_for_core", with_dtype)', "could not be loaded: "),
    "a manifest's guards": ('Broken(graphs, "_for_core", without_guards)', "could not be loaded: "),
    "a library": ('Broken(graphs, "_for_core", without_library)', "could not be loaded: "),
    "counting operators": ('Broken(graphs, "operators")', "could not be loaded: No space left on device"),
}
MODE = {"OPENHPU_COMPILE": "sync", "PT_HPU_RECIPE_CACHE_CONFIG": ""}


@pytest.mark.parametrize("name", CASES)
def test_what_fails_is_a_warning_and_the_next_graph_is_compiled(script, name):
    broken, told = CASES[name]
    result = script(CODE.replace("BROKEN", broken), warnings="always", **MODE)
    assert result.out == "True 0 True"
    (warning,) = (text for text in result.err.splitlines() if "RuntimeWarning" in text)
    assert "recorded from <string>:" in warning and "can't be compiled and runs operator by operator" in warning
    assert told in warning


def test_the_same_where_warnings_are_errors(script):
    """Nobody can catch them on the thread that serves requests."""
    result = script(CODE.replace("BROKEN", "Undescribed()"), **MODE)
    assert result.out == "True 0 True"
    assert "RuntimeWarning: a graph of" in result.err


@pytest.mark.parametrize("warnings", ["always", "error"])
def test_a_dump_on_a_full_disk_costs_the_dump(script, tmp_path, warnings):
    dumps = tmp_path / "dumps"
    dumps.mkdir()
    for number in range(8):
        (dumps / f"graph_{number:04d}.py").symlink_to("/dev/full")
    environment = {"GRAPH_VISUALIZATION": "1", "PT_HPU_GRAPH_DUMP_PREFIX": str(dumps), **MODE}
    code = CODE.replace("with BROKEN:", "with warnings.catch_warnings():")
    code += "    print(len(openhpu.recipes()))\n"
    result = script(code, warnings=warnings, **environment)
    assert result.out.splitlines()[0] == "True 0 True" and int(result.out.splitlines()[1]) >= 2
    assert "graphs cannot be written to" in result.err and "No space left on device" in result.err


def test_an_error_in_a_dump_costs_the_dump(script):
    result = script(CODE.replace("BROKEN", 'Broken(dumps, "write")'), warnings="always", **MODE)
    assert result.out == "True 0 True"
    assert "OSError: No space left on device" in result.err and "RuntimeWarning" not in result.err
