"""Memory that runs out while a graph waits for its recipe, and in a recipe: each allocation in turn."""

CODE = """
    x = torch.linspace(-1, 1, 4096, device="hpu").view(64, 64)
    x_cpu = torch.linspace(-1, 1, 4096).view(64, 64)
    def program(x, length):
        y = x
        for _ in range(length):
            y = y * 0.5 + 0.25
        return y, (y @ y.t()).softmax(1) @ y
    program(x, 1)
    torch.hpu.synchronize()

    live = torch.full((64,), 5.0, device="hpu")
    torch.hpu.synchronize()

    def attempt(workspace, first, length):
        results = program(x, length)
        _C.fail_allocations(0, workspace, first, 1)
        error = None
        try:
            torch.hpu.synchronize()
        except torch.OutOfMemoryError as caught:
            error = caught
        injected = _C.fail_allocations(0, workspace, 0)
        assert (error is not None) == (injected > 0), (error, injected)
        if error is not None:
            assert "Allocation failed" in str(error)
            if workspace:  # the recipe ran, and failed
                results = program(x, length)
        for result, expected in zip(results, program(x_cpu, length)):
            torch.testing.assert_close(result.cpu(), expected, rtol=1e-4, atol=1e-5)
        assert live.tolist() == [5.0] * 64
        return injected

    with counted(ops_node_by_node=0, recipe_misses=0) as moved:
        # Each time a graph that is new, and waits for its recipe.
        while_compiling = next(first - 1 for first in itertools.count(1) if not attempt(False, first, 1 + first))
        in_recipe = next(first - 1 for first in itertools.count(1) if not attempt(True, first, 9))
    print(while_compiling, in_recipe > 0)
    assert moved["recipe_hits"] > 0
"""


def test_each_allocation_of_a_compilation_and_of_its_recipe(script):
    assert script(CODE, PT_HPU_RECIPE_CACHE_CONFIG="").out == "2 True"
