"""Memory of lazy graphs: assigned at the flush, only for what is alive then; nothing leaks, nothing is lost."""

import pytest
import torch

from tests.hpu.support import memory_in_use

pytestmark = pytest.mark.usefixtures("collected")


def test_what_dies_within_a_step_is_never_allocated():
    def program():
        x = torch.ones(1 << 20, device="hpu")
        for _ in range(10):
            x = x + 1
        return x[:8].clone()

    program()
    torch.hpu.synchronize()
    before = torch.hpu.memory_stats()
    torch.hpu.reset_peak_memory_stats()
    y = program()
    after = torch.hpu.memory_stats()
    assert after["NumAllocs"] - before["NumAllocs"] == 1
    assert after["MaxInUse"] - before["InUse"] == 128
    assert y.tolist() == [11.0] * 8


LARGE = """
    MB = 1 << 20
    def block():  # 8 MiB of 64
        return torch.ones(2 * MB, device="hpu")
    keep = block() + 1
    keep[:4].tolist()
"""


def test_a_step_larger_than_memory_fails_at_its_end_and_loses_nothing(script):
    """A read in it is an error, too, and can be repeated. Memory that waits in a graph makes room for an allocation."""
    code = """
    marker = keep + 0
    parts = [keep + i for i in range(9)]  # recorded: 72 MiB that all live
    for _ in range(2):
        with pytest.raises(torch.OutOfMemoryError, match="(?s)Allocation failed.*limit 67108864.*free tensors"):
            htcore.mark_step()
    # The graph waits: what is given up makes room, and the rest is computed.
    del parts[1:6]
    with counted(ops_node_by_node=10):
        htcore.mark_step()
        torch.hpu.synchronize()
    assert [part[7].item() for part in [marker, *parts]] == [2.0, 2.0, 8.0, 9.0, 10.0]
    del parts, marker
    assert (keep * 2)[3].item() == 4

    keep.sum(); keep.add_(0); torch.hpu.synchronize()
    total = keep.sum()
    keep.add_(1)
    parts = [keep + i for i in range(9)]
    for read in (total.item, total.cpu, torch.hpu.synchronize, parts[0].data_ptr):
        with pytest.raises(torch.OutOfMemoryError):
            read()
    del read
    parts.clear()
    assert (total.item(), keep[0].item()) == (2.0 * 2 * MB, 3.0)  # once, not once for each attempt

    # A copy from the host needs memory that only the recorded graph's dead inputs hold.
    del keep
    parts = [block() for _ in range(6)]
    torch.hpu.synchronize()
    total = torch.zeros(2 * MB, device="hpu")
    while parts:
        total += parts.pop()
    x = torch.full((6 * MB,), 7.0).to("hpu")  # 24 MiB
    assert (total[9].item(), x[5].item()) == (6.0, 7.0)
    """
    script(LARGE + code, OPENHPU_MEMORY_GB="0.0625")


def test_a_graph_that_must_end_and_has_no_room_refuses_calls_and_runs_each_once(script):
    """The limit of operators is reached by `add_`: the call is recorded and says nothing, later ones are refused."""
    code = """
    count = torch.zeros(4, device="hpu")
    count.add_(1); keep + 1; torch.hpu.synchronize()
    parts = [keep + i for i in range(9)]
    done = 1
    for _ in range(20):
        try:
            count.add_(1)
            done += 1
        except torch.OutOfMemoryError:
            pass
    assert 1 < done < 21
    parts.clear()
    assert count.tolist() == [float(done)] * 4
    count.add_(1)
    assert count.tolist() == [done + 1.0] * 4
    """
    script(LARGE + code, OPENHPU_MEMORY_GB="0.0625", PT_HPU_MAX_COMPOUND_OP_SIZE="16")


@pytest.mark.parametrize("ending", ["htcore.mark_step()", "x[0].item()", "pass"])
def test_a_million_recorded_operators_leak_nothing(ending, script):
    """In each of two equal halves; the first one is what fills buffers and caches."""
    code = f"""
        def resident():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * 4096
        x, y = torch.zeros(8, device="hpu"), torch.ones(8, device="hpu")
        def run(operators):
            for i in range(operators // 4):
                a = y * float(i)
                x.add_(a)
                b = x[2:6] - 1
                x[2:6].copy_(b)
                if i % 250 == 249:
                    {ending}
            del a, b
            torch.hpu.synchronize()
            gc.collect()
            s = torch.hpu.memory_stats()
            return (s["InUse"], s["ActiveAllocs"], s["NumAllocs"] - s["NumFrees"]), resident()
        run(40_000)
        (first, before), (second, after) = run(500_000), run(500_000)
        assert first == second, (first, second, after - before)
        assert after - before < 8 * 2**20, (first, second, after - before)
        counters = openhpu.counters()
        assert counters["ops_node_by_node"] == counters["ops_recorded"] >= 1_000_000
    """
    script(code, **({"PT_HPU_MAX_COMPOUND_OP_SIZE": "5000"} if ending == "pass" else {}))


def test_what_had_memory_and_dies_while_it_is_recorded_gives_it_back():
    def program():
        parts = [torch.full((64,), float(i), device="hpu") for i in range(8)]
        torch.hpu.synchronize()
        total = torch.zeros(64, device="hpu")
        while parts:
            total += parts.pop() * 2  # the last reference
        others = [torch.full((64,), -1.0, device="hpu") for _ in range(8)]  # would like the same memory
        assert total.tolist() == [56.0] * 64
        assert all(other.sum().item() == -64 for other in others)

    program()
    before = memory_in_use()
    for _ in range(3):
        program()
        assert memory_in_use() == before


def test_graphs_in_memory_are_bounded(script):
    """Under HABANA_PGM_LRU_MAX; graphs that are never compiled need no room at all with OPENHPU_COMPILE=off."""
    code = """
        x = torch.zeros(4, device="hpu")
        x.add_(1)
        for n in range(1, 40):
            for _ in range(n):
                x.add_(1)
            torch.hpu.synchronize()
        assert _C.graphs_seen() == 5
        assert x[0].item() == 1 + sum(range(1, 40))
    """
    script(code, OPENHPU_COMPILE="background", HABANA_PGM_LRU_MAX="5", PT_HPU_RECIPE_CACHE_CONFIG="")


@pytest.mark.parametrize("captured", [False, True])
def test_what_the_collector_frees_while_a_flush_waits_for_its_recipe(script, captured):
    """The compiler's thread may run Python's collector before it delivers what the flush, with its locks, waits for."""
    code = f"""
        from openhpu.compiler.client.service import Service
        look_up = Service._look_up
        def collect_first(self, request):
            collected.append(gc.collect())
            look_up(self, request)
        Service._look_up = collect_first
        collected = []
        gc.disable()
        class Cycle:
            def __init__(self, *tensors):
                self.tensors, self.itself = tensors, self
        def program():
            x = torch.arange(4096.0, device="hpu")
            recorded = x * 2
            Cycle(given, recorded, recorded.view(64, 64).t(), x + 1)
            return recorded + given
        given = torch.ones(4096, device="hpu")
        other = torch.zeros(4096, device="hpu")
        other += program()  # known operators cut no graph
        torch.hpu.synchronize()
        other.zero_()
        gc.collect()
        torch.hpu.synchronize()
        before = torch.hpu.memory_allocated()
        given, graph = given + 0, torch.hpu.HPUGraph() if {captured} else None
        with torch.hpu.graph(graph) if graph else contextlib.nullcontext():
            z = program()
        del given
        if graph:
            graph.replay()
        torch.hpu.synchronize()
        del graph
        other += z
        torch.hpu.synchronize()
        assert torch.equal(z.cpu(), torch.arange(4096.0) * 2 + 1)
        assert torch.equal(other, z)
        assert max(collected) >= 1, collected
        del z
        gc.collect()
        torch.hpu.synchronize()
        assert torch.hpu.memory_allocated() == before - 4096 * 4, (torch.hpu.memory_allocated(), before)
        assert openhpu.counters()["ops_in_recipes"] >= 4
    """
    script(code, PT_HPU_LAZY_MODE="1", OPENHPU_COMPILE="sync", PT_HPU_RECIPE_CACHE_CONFIG="")


def test_results_that_die_in_one_thread_while_another_flushes(script):
    """Promised memory is given back once: not by the thread that destroys a result and by the flush that meets it."""
    script("""
        x = torch.ones(64, 64, device="hpu", requires_grad=True)
        def steps(n):  # autograd's thread drops results without Python's lock
            for _ in range(n):
                y = x
                for _ in range(8):
                    y = (y * 2).tanh()
                y.sum().backward()
                x.grad = None
        def level():
            gc.collect()
            torch.hpu.synchronize()
            torch.hpu.reset_peak_memory_stats()
            stats = torch.hpu.memory_stats()
            return stats["InUse"], stats["MaxInUse"], stats["ActiveAllocs"]
        steps(5)
        before = level()
        thread = threading.Thread(target=steps, args=(500,))
        thread.start()
        while thread.is_alive():
            htcore.mark_step()
        thread.join()
        assert level() == before, (level(), before)
    """)


def test_causes_of_recompilations_are_bounded_and_their_number_is_not(script):
    code = """
        from openhpu.compiler.client.service import Service
        Service.request = lambda self, identity, description, on_ready, on_failed: on_failed(identity, "not now")
        numbers = torch.zeros(2000, device="hpu")
        numbers[:4] + 1
        for n in range(5, 1205):
            for _ in range(2):
                numbers[:n] + 1
                torch.hpu.synchronize()
            openhpu.wait_for_recipes()  # that there is none for all sizes is known before the next
        found = openhpu.recompilations()
        assert len(found) == 1024, len(found)
        assert openhpu.counters()["recompilations"] > 1100
        assert (found[-1].cause, found[-1].before, found[-1].after) == ("size", "1203", "1204"), found[-1]
    """
    script(code, OPENHPU_COMPILE="background", PT_HPU_RECIPE_CACHE_CONFIG="", warnings="ignore")
