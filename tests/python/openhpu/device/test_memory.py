import pytest
import torch


def test_reserved_is_the_capacity(hpu):
    free, total = hpu.mem_get_info()
    assert total == hpu.memory_reserved() == hpu.max_memory_reserved("hpu:0")
    assert free == total - hpu.memory_allocated()


@pytest.mark.parametrize("chosen", ["0", "0.5"])
def test_ranks_of_one_machine_share_what_is_free(script, chosen):
    code = """
        import torch, habana_frameworks.torch
        from openhpu._machine import device_memory
        print(*torch.hpu.mem_get_info(), device_memory())
    """
    ran = script(code, LOCAL_RANK="0", LOCAL_WORLD_SIZE="4", OPENHPU_MEMORY_GB=chosen)
    free, total, machine = map(int, ran.out.split())
    if chosen == "0":
        assert free < total / 3
        assert free < machine / 3
    else:
        assert free == total == 1 << 29


def test_old_names_warn(hpu):
    with pytest.warns(FutureWarning, match="memory_reserved"):
        assert hpu.memory_cached() == hpu.memory_reserved()
    with pytest.warns(FutureWarning, match="max_memory_reserved"):
        assert hpu.max_memory_cached() == hpu.memory_reserved()


def test_accumulated_counts_start_over(hpu):
    torch.empty(1, device="hpu")
    hpu.reset_accumulated_memory_stats()
    stats = hpu.memory_stats()
    assert stats["NumAllocs"] == stats["NumFrees"] == stats["TotalSystemAllocs"] == 0
    hpu.reset_max_memory_allocated()
    assert hpu.max_memory_allocated() == hpu.memory_allocated()
    assert hpu.memory_stats()["MaxAllocSize"] == 0
    hpu.empty_cache()


def test_summary_is_a_table(hpu):
    summary = hpu.memory_summary()
    assert len({len(line) for line in summary.splitlines()}) == 1
    assert not [key for key in hpu.memory_stats() if f"({key})" not in summary]
    assert "(TotalSystemAllocs)" not in hpu.memory_summary(abbreviated=True)
    assert 0 <= hpu.memory_usage() <= 100
