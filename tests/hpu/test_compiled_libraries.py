"""How many recipes' libraries a process has loaded: as many as the system lets it map."""

# The system allows so few mappings that 3 libraries are kept, and 6 with those of captured graphs.
COMMON = """
    from openhpu.compiler.client import client as graphs
    (few := Path("few")).write_text(str(4 * graphs._MAPPINGS * 3))
    graphs._MAX_MAP_COUNT = few
    _C.configure_graphs("sync", 1000, 10000, max_libraries=graphs._most_libraries())
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


def test_captured_graphs_keep_theirs_and_those_of_others_are_unloaded(script):
    code = """
    for n in PROGRAMS:
        for _ in range(2):
            assert right(n, program(n))
    torch.hpu.synchronize()
    assert len(loaded()) <= 4
    assert right(1, program(1))  # its recipe is loaded again
    print("dropped", file=sys.stderr)
    kept = [(n, *capture(lambda: program(n))) for n in PROGRAMS]
    for _ in range(2):
        for n, graph, y in kept:
            graph.replay()
            assert right(n, y)  # some of them run node by node
    print(len(loaded()))
    """
    mode = {"OPENHPU_COMPILE": "sync", "PT_HPU_LAZY_MODE": "1", "PT_HPU_RECIPE_CACHE_CONFIG": "cache"}
    result = script(COMMON + code, warnings="always", **mode)
    assert result.out == "6"
    before, _, after = result.err.partition("dropped")
    assert "RuntimeWarning" not in before
    warned = [line for line in after.splitlines() if "RuntimeWarning" in line]
    assert warned
    assert all("vm.max_map_count" in line for line in warned)
