"""Metrics of lazy mode, on real graphs. Each test is a process of its own, with a cache of recipes of its own."""

import json

LAZY = {"PT_HPU_LAZY_MODE": "1", "PT_HPU_ENABLE_CACHE_METRICS": "1", "OPENHPU_COMPILE": "sync"}

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


def test_a_graph_is_compiled_once_and_found_from_then_on(script):
    result = script(
        PROGRAM
        + """
    small, large = torch.ones(4).to("hpu"), torch.ones(6).to("hpu")
    step(small)  # learns what the operators return
    for name in ("graph_compilation", "recipe_cache"):
        metric_global(name).reset()
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
    """,
        **LAZY,
    )
    (first, lookups), (none, hits), (new, mixed), stopped, whole = json.loads(result.out)
    # What was run to learn the operators' results was cut into pieces, which are not looked up.
    assert first["TotalNumber"] == 1
    assert first["TotalTime"] == first["AvgTime"] > 0
    assert (lookups["TotalHit"], lookups["TotalMiss"]) == (4, 1)
    assert lookups["RecipeHit"].keys() == lookups["RecipeMiss"].keys()
    assert none["TotalNumber"] == 0
    assert (hits["TotalHit"], hits["TotalMiss"]) == (3, 0)
    assert (new["TotalNumber"], mixed["TotalMiss"]) == (1, 1)
    assert stopped == mixed
    assert whole["TotalHit"] == 8


def test_reading_a_value_compiles_without_a_step(script):
    result = script(
        PROGRAM
        + """
    x = torch.ones(4).to("hpu")
    (x + 1).cpu()
    before = stats("graph_compilation")["TotalNumber"], stats("recipe_cache")["TotalHit"]
    for _ in range(2):
        (x + 1).cpu()
    after = stats("graph_compilation")["TotalNumber"], stats("recipe_cache")["TotalHit"]
    with metric_localcontext("cpu_fallback") as fallbacks, metric_localcontext("memory_defragmentation") as moved:
        (x.to(torch.complex64) + 1).cpu()
    print(json.dumps([before, after, dict(fallbacks.stats()), dict(moved.stats())]))
    """,
        **LAZY,
    )
    before, after, fallbacks, moved = json.loads(result.out)
    assert before[0] <= after[0] == 1
    assert after[1] > before[1]
    assert fallbacks["TotalNumber"] == sum(fallbacks["FallbackOps"].values()) > 0
    assert moved == {"TotalNumber": 0, "TotalSuccessful": 0, "AvgTime": 0.0, "MaxTime": 0.0}


def test_misses_without_a_compiler_and_the_dispatchers_names(script):
    result = script(
        PROGRAM
        + """
    from habana_frameworks.torch.utils.event_dispatcher import EventDispatcher, EventId
    seen = []
    for kind in (EventId.CACHE_MISS, EventId.CACHE_HIT):
        EventDispatcher.instance().subscribe(kind, lambda time, params, kind=kind: seen.append((kind.value, params)))
    x = torch.ones(4).to("hpu")
    step(x)
    del seen[:]
    metric_global("recipe_cache").reset()
    for _ in range(3):
        step(x)
    metrics_dump("metrics.json")
    print(json.dumps([seen, stats("recipe_cache"), [r["metric_name"] for r in json.load(open("metrics.json"))]]))
    """,
        **{**LAZY, "OPENHPU_COMPILE": "off"},
    )
    seen, cache, names = json.loads(result.out)
    assert [kind for kind, _ in seen] == ["cache_miss"] * 3
    assert len({dict(params)["recipe_id"] for _, params in seen}) == 1
    assert (cache["TotalHit"], cache["TotalMiss"]) == (0, 3)
    assert names == ["graph_compilation", "cpu_fallback", "memory_defragmentation", "recipe_cache"]


def test_a_recipe_from_disk_is_no_compilation(script, tmp_path):
    program = (
        PROGRAM
        + """
    from openhpu import events
    loaded = []
    events.subscribe("recipe_loaded", loaded.append)
    x = torch.ones(4).to("hpu")
    for _ in range(3):
        step(x)
    print(json.dumps([stats("graph_compilation")["TotalNumber"], len(loaded), stats("recipe_cache")["TotalHit"] > 0]))
    """
    )
    environment = {**LAZY, "PT_HPU_RECIPE_CACHE_CONFIG": f"{tmp_path / 'recipes'},0,100"}
    assert json.loads(script(program, **environment).out) == [1, 0, True]
    assert json.loads(script(program, **environment).out) == [0, 1, True]
