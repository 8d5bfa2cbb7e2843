"""A request to the compiler is answered whatever happens to it: a script that waits goes on, without the recipe."""

import re

import pytest

CODE = """
    from types import SimpleNamespace
    from unittest.mock import patch
    from openhpu.compiler.client import client as graphs
    from openhpu.compiler.client import service
    from openhpu.compiler.client.service import Service
    from openhpu.compiler.client import dumps

    FULL = OSError("No space left on device")
    recipe = {"key": "0" * 64, "inputs": [], "outputs": [], "scalar_inputs": [], "variable": [], "threads": 1,
              "guards": [], "external_kernels": {}, "counted": [], "overflowing": [], "nodes": 1, "regions": [],
              "calls": [], "libraries": lambda: ["recipe.so"]}

    @contextlib.contextmanager
    def answered(**changes):
        # As if the compiler had answered at once, with this.
        def request(self, identity, description, on_ready, on_failed):
            try:
                on_ready(identity, SimpleNamespace(**recipe | changes), Path("/nowhere"))
            except Exception:
                service._report()
        with patch.object(Service, "request", request), patch.object(Path, "read_text", return_value=""):
            yield

    @contextlib.contextmanager
    def unreadable():
        with answered(), patch.object(Path, "read_text", side_effect=FULL):
            yield

    @contextlib.contextmanager
    def undescribed():
        _C.break_description()
        yield

    x = torch.arange(6.0, device="hpu")
    def program(length):
        y = x
        for _ in range(length):
            y = y + 1
        return y.tolist()
    with patch.object(Service, "request", side_effect=FULL):
        program(1)  # `add` is learned
        torch.hpu.synchronize()
    print("ready", file=sys.stderr)

    def check(length):
        assert program(length) == [n + length for n in range(6)]
        assert openhpu.wait_for_recipes(60)
        assert graphs.unanswered() == 0
        hits = openhpu.counters()["recipe_hits"]
        program(length)
        return openhpu.counters()["recipe_hits"] - hits

    cases = [
        undescribed(), patch.object(Service, "request", side_effect=FULL), unreadable(),
        answered(inputs=[SimpleNamespace(slot=0, dtype="no dtype")]), answered(guards=[[]]), answered(),
    ]
    for length, broken in enumerate(cases, 2):
        with broken:
            assert check(length) == 0, length
    with patch.object(dumps, "write", side_effect=FULL):
        assert check(50) == 1  # an error in a dump costs the dump
    print(check(99), graphs._compilations._thread.is_alive())  # the next request is served
"""
TOLD = [
    "it can't be described: for a test",
    "OSError: No space left on device",
    "could not be loaded: No space left on device",
    "could not be loaded: ",
    "could not be loaded: ",
    "could not be loaded: .*/nowhere/recipe.so",
]
MODE = {"OPENHPU_COMPILE": "sync", "PT_HPU_RECIPE_CACHE_CONFIG": ""}


@pytest.mark.parametrize("warnings", ["always", "error"])  # nobody can catch them on the thread that serves requests
def test_what_fails_is_a_warning_and_the_next_graph_is_compiled(script, warnings):
    result = script(CODE, warnings=warnings, **MODE)
    assert result.out == "1 True"
    assert "\nOSError: No space left on device" in result.err  # of the dump
    found = [text for text in result.err.split("ready\n", 1)[1].splitlines() if "RuntimeWarning: " in text]
    assert len(found) == len(TOLD), result.err
    for length, (text, told) in enumerate(zip(found, TOLD, strict=True), 2):
        where = rf"a graph of {length} operators, recorded from <string>:\d+ on, can't be compiled and runs operator by"
        assert re.search(rf"{where} operator: .*{told}", text), text
