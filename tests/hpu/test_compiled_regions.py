"""A layer that repeats is compiled once: values of the nodes, one library for all layers, and a cache of regions."""

COMMON = """
    import json
    index = torch.tensor([3, -1, 0], device="hpu")  # -1: a row of zeros, which is counted
    table = torch.randn(4, 3).to("hpu")
    def layer(x, weight):
        y = torch.dropout(x @ weight, 0.25, True)
        x.add_(y).clamp_(-2, 2)  # it writes its input
        z = torch.relu(x) * 0.5 - torch.nn.functional.embedding(index, table)
        return torch.maximum(z, x.t()) + 1
    def model(start, weights):
        torch.manual_seed(3)
        x, kept = start.clone(), []
        for n, weight in enumerate(weights):
            x = layer(x, weight)
            if n == 2:
                kept.append(x.view(-1)[1:3])  # one of the layers makes a result of the graph
        return [start.mul_(2), x, *kept]  # a result in place
    def weights(count):
        return [torch.randn(3, 3, generator=torch.Generator().manual_seed(n)).to("hpu") for n in range(count)]
    def run(count, given):
        start = torch.ones(3, 3, device="hpu")
        htcore.mark_step()
        results = model(start, given)
        htcore.mark_step()
        return [t.cpu() for t in results]
    def recipes():
        found = [json.loads(path.read_text()) for path in Path("cache").glob("*/manifest.json")]
        return {kind: sorted(m["key"] for m in found if bool(m["calls"]) == kind) for kind in (False, True)}
    def loaded():
        return set(re.findall(r"\\S+/recipe[-0-9]*\\.so", Path("/proc/self/maps").read_text()))
"""

MODE = {"OPENHPU_COMPILE": "sync", "PT_HPU_LAZY_MODE": "1", "PT_HPU_RECIPE_CACHE_CONFIG": "cache"}


def test_layers_are_compiled_once(script):
    """For a model of 6 layers; one of 9 finds them on disk, and loads nothing more."""
    code = """
    _C.configure_graphs("off", 1000, 10000)
    by_nodes = {count: run(count, weights(count)) for count in (6, 9)}
    _C.configure_graphs("sync", 1000, 10000)
    seen = {}
    for count in (6, 9):
        given = weights(count)
        run(count, given)
        with counted(ops_node_by_node=0) as work:
            seen[count] = run(count, given)
        assert work["ops_in_recipes"] == work["ops_recorded"] > 9 * count
        regions, libraries = recipes(), loaded()
        if count == 6:
            first = regions[False], libraries
    for count, results in seen.items():
        for ours, theirs in zip(results, by_nodes[count], strict=True):
            assert torch.equal(ours, theirs), (count, ours, theirs)
    assert {recipe.calls > recipe.operators / 12 for recipe in openhpu.recipes() if recipe.operators > 50} == {True}
    assert (regions[False], libraries) == first
    assert len(regions[True]) == 2
    print(len(first[0]), len(libraries))
    """
    regions, libraries = map(int, script(COMMON + code, **MODE).out.split())
    assert 1 <= libraries <= regions <= 3
