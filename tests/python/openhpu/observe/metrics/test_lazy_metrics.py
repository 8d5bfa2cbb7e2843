"""Metrics of lazy mode, on real graphs. Each test is a process of its own, with a cache of recipes of its own."""

import json

import pytest

from tests.processes import clean_environment, run_file

LAZY = {"PT_HPU_LAZY_MODE": "1", "PT_HPU_ENABLE_CACHE_METRICS": "1", "OPENHPU_COMPILE": "off"}

PROGRAM = """
    import json
    import torch
    import habana_frameworks.torch.core as htcore
    from habana_frameworks.torch.hpu.metrics import metric_global, metric_localcontext, metrics_dump

    def step(x):
        y = (x + 1) * 2
        htcore.mark_step()
        return y

    def stats(name):
        return dict(metric_global(name).stats())
"""


@pytest.fixture
def program(script):
    """What a script prints that begins with PROGRAM, or `head`: JSON."""

    def run(code, head=PROGRAM, **variables):
        return json.loads(script(head + code, **LAZY | variables).out)

    return run


def test_a_graph_is_new_once_and_found_from_then_on(program):
    code = """
    small, large = torch.ones(4).to("hpu"), torch.ones(6).to("hpu")
    for _ in range(5):
        step(small)
    after_small = stats("graph_compilation"), stats("recipe_cache")
    with metric_localcontext("recipe_cache") as cache, metric_localcontext("graph_compilation") as compilation:
        for _ in range(3):
            step(small)
        inside = dict(compilation.stats()), dict(cache.stats())
        step(large)
        changed = dict(compilation.stats()), dict(cache.stats())
    step(small)
    print(json.dumps([after_small, inside, changed, dict(cache.stats()), stats("recipe_cache")]))
    """
    result = program(code, OPENHPU_COMPILE="sync")
    (first, lookups), (none, hits), (new, mixed), stopped, whole = result
    # The first sight counts, although it ran in parts, to learn the operators' results.
    assert first["TotalNumber"] == 1
    assert first["TotalTime"] == first["AvgTime"] > 0
    assert (lookups["TotalHit"], lookups["TotalMiss"]) == (4, 1)
    assert lookups["RecipeHit"].keys() == lookups["RecipeMiss"].keys()
    assert none["TotalNumber"] == 0
    assert (hits["TotalHit"], hits["TotalMiss"]) == (3, 0)
    assert (new["TotalNumber"], mixed["TotalMiss"]) == (1, 1)
    assert stopped == mixed
    assert whole["TotalHit"] == 8


def test_reading_a_value_ends_a_graph_as_a_step_does(program):
    result = program("""
    x = torch.ones(4).to("hpu")
    (x + 1).cpu()
    before = stats("graph_compilation")["TotalNumber"], stats("recipe_cache")["TotalHit"]
    for _ in range(2):
        (x + 1).cpu()
    after = stats("graph_compilation")["TotalNumber"], stats("recipe_cache")["TotalHit"]
    with metric_localcontext("cpu_fallback") as fallbacks, metric_localcontext("memory_defragmentation") as moved:
        (x.to(torch.complex64) - 1).cpu()
    print(json.dumps([before, after, dict(fallbacks.stats()), dict(moved.stats())]))
    """)
    before, after, fallbacks, moved = result
    assert before == [1, 0]
    assert after == [1, 2]
    assert fallbacks["TotalNumber"] == sum(fallbacks["FallbackOps"].values()) > 0
    assert moved == {"TotalNumber": 0, "TotalSuccessful": 0, "AvgTime": 0.0, "MaxTime": 0.0}


def test_a_graph_counts_whether_or_not_there_is_a_compiler(program):
    result = program("""
    from habana_frameworks.torch.utils.event_dispatcher import EventDispatcher, EventId
    seen = []
    for kind in (EventId.CACHE_MISS, EventId.CACHE_HIT):
        EventDispatcher.instance().subscribe(kind, lambda time, params, kind=kind: seen.append((kind.value, params)))
    x = torch.ones(4).to("hpu")
    for _ in range(3):
        step(x)
    metrics_dump("metrics.json")
    print(json.dumps([seen, stats("recipe_cache"), stats("graph_compilation"),
                      [r["metric_name"] for r in json.load(open("metrics.json"))]]))
    """)
    seen, cache, compilation, names = result
    assert [kind for kind, _ in seen] == ["cache_miss", "cache_hit", "cache_hit"]
    assert len({dict(params)["recipe_id"] for _, params in seen}) == 1
    assert (cache["TotalHit"], cache["TotalMiss"]) == (2, 1)
    assert compilation == {"TotalNumber": 1, "TotalTime": 0, "AvgTime": 0}
    assert names == ["graph_compilation", "cpu_fallback", "memory_defragmentation", "recipe_cache"]


def test_a_step_is_one_graph_also_where_it_begins_early(program):
    result = program("""
    import openhpu
    model = torch.nn.Sequential(*(torch.nn.Linear(8, 8) for _ in range(4))).to("hpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.ones(4, 8).to("hpu")
    counts = []
    for i in range(12):
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        loss.item()
        counts.append(stats("graph_compilation")["TotalNumber"])
    print(json.dumps([counts, openhpu.counters()["graphs_started_early"], stats("recipe_cache")]))
    """)
    counts, early, cache = result
    assert len(set(counts[1:])) == 1  # the first step has no gradients to clear
    assert counts[-1] <= 2
    assert cache["TotalHit"] + cache["TotalMiss"] == 12
    assert early >= 0


def test_captured_graphs_count_when_they_are_captured(program):
    code = """
    module = torch.nn.Linear(4, 4).to("hpu")
    graphed = torch.hpu.wrap_in_hpu_graph(module)
    torch.hpu.synchronize()
    with metric_localcontext("graph_compilation") as compilation, torch.no_grad():
        for rows in (2, 3, 2, 3, 2):
            graphed(torch.ones(rows, 4).to("hpu"))
        print(json.dumps(dict(compilation.stats())["TotalNumber"]))
    """
    result = program(code, PT_HPU_LAZY_MODE="0")
    assert result == 2


def test_a_recipe_from_disk_takes_no_time(program, tmp_path):
    code = """
    from openhpu import events
    loaded, compiled = [], []
    events.subscribe("recipe_loaded", loaded.append)
    events.subscribe("graph_compilation", compiled.append)
    x = torch.ones(4).to("hpu")
    for _ in range(3):
        step(x)
    print(json.dumps([stats("graph_compilation")["TotalNumber"], stats("graph_compilation")["TotalTime"] > 0,
                      len(compiled), len(loaded), stats("recipe_cache")["TotalHit"]]))
    """
    variables = {"OPENHPU_COMPILE": "sync", "PT_HPU_RECIPE_CACHE_CONFIG": f"{tmp_path / 'recipes'},0,100"}
    assert program(code, **variables) == [1, True, 1, 0, 2]
    assert program(code, **variables) == [1, False, 0, 1, 2]


CHILDREN = """
    import json, os, sys
    import torch, habana_frameworks.torch
    from habana_frameworks.torch.hpu.metrics import metric_global
    import torch.multiprocessing as mp

    def numbers():
        names = "graph_compilation", "cpu_fallback", "memory_defragmentation", "recipe_cache"
        return [dict(metric_global(name).stats()) for name in names]

    def use():
        x = torch.ones(4, device="hpu") + 1
        torch.linalg.svdvals(torch.eye(2, device="hpu"))
        torch.hpu.synchronize()
"""
ZERO = [
    {"TotalNumber": 0, "TotalTime": 0, "AvgTime": 0},
    {"TotalNumber": 0, "FallbackOps": {}},
    {"TotalNumber": 0, "TotalSuccessful": 0, "AvgTime": 0.0, "MaxTime": 0.0},
    {"TotalHit": 0, "RecipeHit": {}, "TotalMiss": 0, "RecipeMiss": {}},
]


def test_a_process_that_has_not_opened_a_device_has_metrics_of_zero(program):
    result = program(
        """
    out = [numbers()]
    for used in (False, True):
        if used:
            use()
        read, write = os.pipe()
        if os.fork() == 0:
            os.write(write, json.dumps(numbers()).encode())
            os._exit(0)
        os.wait()
        out.append(json.loads(os.read(read, 10000)))
    own = numbers()
    print(json.dumps([out, own[0]["TotalNumber"] > 0, own[1]["TotalNumber"] > 0]))
    """,
        CHILDREN,
    )
    assert result == [[ZERO] * 3, True, True]


def test_each_process_writes_a_file_of_its_own(tmp_path):
    code = """
    def child(queue=None):
        use()

    if __name__ == "__main__":
        method = sys.argv[1] if len(sys.argv) > 1 else os.environ["METHOD"]
        processes = [mp.get_context(method).Process(target=child) for _ in range(2)]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        idle = mp.get_context(method).Process(target=print)
        idle.start()
        idle.join()
        use()
        print(json.dumps([process.pid for process in processes]))
    """
    for method in ("fork", "spawn", "forkserver"):
        folder = tmp_path / method
        folder.mkdir()
        metrics = {"PT_HPU_METRICS_FILE": "metrics/m.json", "PT_HPU_METRICS_DUMP_TRIGGERS": "process_exit"}
        environment = clean_environment(folder, METHOD=method, RANK="1", **metrics)
        pids = json.loads(run_file(CHILDREN + code, folder, environment, fails=False, fresh=True).out.splitlines()[-1])
        files = sorted(path.name for path in (folder / "metrics").iterdir())
        assert files == sorted([f"m-rank1-pid{pid}.json" for pid in pids] + ["m-rank1.json"])
        for name in files:
            records = json.loads((folder / "metrics" / name).read_text())
            assert [record["triggered_by"] for record in records] == ["process_exit"] * 3
            assert records[1]["statistics"]["TotalNumber"] > 0
