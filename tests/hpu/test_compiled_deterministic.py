"""Under deterministic algorithms what runs as a recipe never depends on how fast the compiler is, and few wait for it.

The programs run twice: with a compiler that takes seconds, for which nobody waits until a recipe takes over, and with
recipes that lie on disk and are there after every step. Which of the graphs ran as recipes must be the same.
"""

import re

import pytest

COMMON = """
    from openhpu.compiler.client import client as graphs
    torch.use_deterministic_algorithms(True)
    x, big = torch.arange(12.0).to("hpu"), torch.arange(400.0).to("hpu")
    taken = []
    def chain(y, length):
        for _ in range(length):
            y = (y + 1).relu()
        return y
    def did(step):
        with counted() as moved:
            step()
            htcore.mark_step()
        taken.append("R" if moved["recipe_hits"] else "n" if moved["ops_node_by_node"] else "-")
        while PATIENT and graphs.unanswered():
            time.sleep(0.001)
"""

# A program, and what its steps ran as, as a pattern: n node by node, R as a recipe. Where operators are new the first
# graph is cut (-), or does not count: a recipe takes over at the 32nd that is whole.
SMALL = "[-n]n{30,31}"
PROGRAMS = {
    "a small graph": ("for _ in range(40): did(lambda: (x * 2 + 1).relu())", SMALL + "R{8,9}"),
    # From the 36th step on the number counts as one that changes: the recipe that holds it is replaced 30 steps later.
    "a number that changes": (
        "for k in range(70): did(lambda: (x * (2.0 if k < 36 else k * 0.5) + 1).relu())",
        SMALL + "R{4,5}n{30}R{4}",
    ),
    # Each size is a graph of its own; a family's count together.
    "sizes of a small graph": (
        """
    for size in [4 + k % 6 for k in range(60)] + [11] * 40 + [*range(4, 10)]:
        did(lambda: (x[:size] * 2 + 1).relu())
        """,
        None,
    ),
    "sizes of a larger graph": ("for k in range(140): did(lambda: chain(big[:200 + k], 20))", None),
    "a large graph": ("for _ in range(24): did(lambda: chain(x, 150))", "[-n]n{14,15}R{8,9}"),
    "a captured graph": (
        """
    graph, _ = capture(lambda: (x * 2 + 1).relu().neg().abs())
    for _ in range(32):
        did(graph.replay)
        """,
        "n{29}R{3}",
    ),
    "an inference graph": (
        """
    wrapped = torch.hpu.wrap_in_hpu_graph(torch.nn.Linear(12, 12).to("hpu"))
    with torch.no_grad():
        for _ in range(40):
            did(lambda: wrapped(x))
        """,
        None,
    ),
}


def run_programs(script, programs, patient, **environment):
    """What each of them did."""
    code = f"    PATIENT = {patient}" + COMMON
    for text in programs:
        code += f"    {text}\n    print(''.join(taken))\n    taken.clear()\n    openhpu.wait_for_recipes()\n"
    environment = {"OPENHPU_COMPILE": "background", "PT_HPU_RECIPE_CACHE_CONFIG": "", **environment}
    return script(code, warnings="ignore", timeout=900, **environment).out.splitlines()


def test_what_runs_does_not_depend_on_the_compilers_speed(script, tmp_path):
    texts = [text for text, _ in PROGRAMS.values()]
    cache = {"PT_HPU_RECIPE_CACHE_CONFIG": str(tmp_path / "cache")}
    slow = dict(zip(PROGRAMS, run_programs(script, texts, False, **cache), strict=True))
    fast = dict(zip(PROGRAMS, run_programs(script, texts, True, **cache), strict=True))
    assert slow == fast
    for program, (_, expected) in PROGRAMS.items():
        found = slow[program]
        assert re.fullmatch(expected or ".*n.*RRRRRR", found), (program, found)


def test_a_graph_that_cannot_be_compiled(script):
    """Somebody waits for it once; a family's members are asked for one by one, which fails as well."""
    programs = [PROGRAMS[name][0] for name in ("a small graph", "sizes of a larger graph")]
    slow = run_programs(script, programs, False, CXX="/bin/false")
    assert slow == run_programs(script, programs, True, CXX="/bin/false")
    assert [re.fullmatch("[-n]n*", found) is not None for found in slow] == [True, True]


@pytest.mark.parametrize("deterministic", [True, False])
def test_who_waits_for_recipes_has_them(script, deterministic):
    """Without deterministic algorithms recipes take over when they are there."""
    program = f"""
    torch.use_deterministic_algorithms({deterministic})
    for _ in range(6):
        did(lambda: (x * 2 + 1).relu())
        openhpu.wait_for_recipes()
    """
    assert run_programs(script, [program], False) == ["-nnRRR"]
