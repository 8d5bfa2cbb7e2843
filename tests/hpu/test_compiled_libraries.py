"""How many recipes' libraries a process has loaded: as many as the system lets it map, those used last."""

# The system allows so few mappings that 3 libraries are kept, and 6 with those of captured graphs.
COMMON = """
    import re, torch, openhpu, warnings
    from pathlib import Path
    from openhpu import graphs
    (few := Path("few")).write_text(str(4 * graphs._MAPPINGS * 3))
    graphs._MAX_MAP_COUNT = few
    x = torch.arange(6.0, device="hpu")
    def program(n):
        y = x
        for _ in range(n):
            y = (y * 2 - 1).abs()
        return y
    def expected(n):
        y = torch.arange(6.0)
        for _ in range(n):
            y = (y * 2 - 1).abs()
        return y
    def loaded():
        maps = Path("/proc/self/maps").read_text()
        return {path: maps.count(path) for path in re.findall(r"\\S+/recipe\\.so", maps)}
    def right(n, y):
        return bool(torch.equal(y.cpu(), expected(n)))
    PROGRAMS = range(1, 9)
"""
MODE = {"OPENHPU_COMPILE": "sync", "PT_HPU_LAZY_MODE": "1"}


def test_those_that_were_not_used_for_the_longest_go(script):
    code = """
    for _ in range(2):  # operators are learned
        program(2).cpu()
    assert all(right(n, program(n)) for n in PROGRAMS)
    made, now = openhpu.counters()["recipes_compiled"], loaded()
    print(made, len(now), max(now.values()) <= graphs._MAPPINGS)
    openhpu.reset_counters()
    assert all(right(n, program(n)) for n in (8, 7))
    print(openhpu.counters()["recipes_compiled"], openhpu.counters()["recipe_hits"])
    assert right(1, program(1))  # from the disk
    print(openhpu.counters()["recipes_compiled"], len(loaded()))
    """
    result = script(COMMON + code, PT_HPU_RECIPE_CACHE_CONFIG="cache", **MODE)
    assert result.out.splitlines() == ["8 3 True", "0 2", "1 3"]


def test_captured_graphs_keep_theirs_and_others_run_node_by_node(script):
    code = """
    kept = []
    for _ in range(2):
        program(2).cpu()
    for n in PROGRAMS:
        graph = torch.hpu.HPUGraph()
        with torch.hpu.graph(graph):
            y = program(n)
        kept.append((n, graph, y))
    for _ in range(2):
        for n, graph, y in kept:
            graph.replay()
            assert right(n, y)
    print(len(loaded()))
    """
    result = script(COMMON + code, PT_HPU_RECIPE_CACHE_CONFIG="cache", warnings="always", **MODE)
    assert result.out == "6"
    warned = [line for line in result.err.splitlines() if "RuntimeWarning" in line]
    assert len(warned) == 2 and all("vm.max_map_count" in line for line in warned)
