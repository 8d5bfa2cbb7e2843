"""How many recipes' libraries a process has loaded: as many as the system lets it map."""

# The system allows so few mappings that 3 libraries are kept, and 6 with those of captured graphs.
COMMON = """
    import re
    from pathlib import Path
    from openhpu.compiler.client import client as graphs
    (few := Path("few")).write_text(str(4 * graphs._MAPPINGS * 3))
    graphs._MAX_MAP_COUNT = few
    x = torch.arange(6.0, device="hpu")
    def program(n, y=x):
        for _ in range(n):
            y = (y * 2 - 1).abs()
        return y
    def loaded():
        maps = Path("/proc/self/maps").read_text()
        return {path: maps.count(path) for path in re.findall(r"\\S+/recipe\\.so", maps)}
    def right(n, y):
        return torch.equal(y.cpu(), program(n, torch.arange(6.0)))
    PROGRAMS = range(1, 9)
"""
MODE = {"OPENHPU_COMPILE": "sync", "PT_HPU_LAZY_MODE": "1"}


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
    assert warned and all("vm.max_map_count" in line for line in warned)


def test_libraries_of_graphs_that_were_dropped_are_unloaded(script):
    code = """
    for n in PROGRAMS:
        for _ in range(2):
            assert right(n, program(n))
    torch.hpu.synchronize()
    print(len(loaded()))
    assert right(1, program(1))  # its recipe is loaded again
    """
    assert int(script(COMMON + code, PT_HPU_RECIPE_CACHE_CONFIG="cache", **MODE).out) <= 4
