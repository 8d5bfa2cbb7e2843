"""While graphs are compiled, graphs that run node by node leave a core to the compiler (`GraphCache::leaves_core`)."""

import pytest


@pytest.mark.parametrize(("deterministic", "idle"), [(False, 0.0), (True, 0.0), (False, 1e3)])
def test_graphs_leave_a_core_until_the_recipe_is_there(script, deterministic, idle):
    """Not at first, and not where two runs must give the same bits, as these depend on the number of threads."""
    code = f"""
    from openhpu.compiler.client import client
    _C.configure_graphs("background", 1000, 10000, idle_compiler_s={idle})
    torch.use_deterministic_algorithms({deterministic})
    x = torch.rand(300, 300)  # larger than what one thread computes anyway
    y = x.to("hpu")

    def step():
        out = (y @ y).relu() + 1
        htcore.mark_step()
        torch.testing.assert_close(out.cpu(), (x @ x).relu() + 1)

    for _ in range(3):
        step()
    service = client._compilations._service
    while not service._current:
        time.sleep(0.01)
    os.killpg(service._process.pid, signal.SIGSTOP)
    with counted() as moved:
        for _ in range(5):
            step()
    beside = moved["graphs_beside_compiler"]
    assert beside == 0 if {deterministic or idle > 0} else beside >= 5
    os.killpg(service._process.pid, signal.SIGCONT)
    assert openhpu.wait_for_recipes(120)
    with counted(graphs_beside_compiler=0):
        step()
    """
    script(code, PT_HPU_LAZY_MODE="1", OPENHPU_COMPILE="background", PT_HPU_RECIPE_CACHE_CONFIG="")
