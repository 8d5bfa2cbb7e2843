"""Device memory: reuse in queue order, statistics, capacity."""

import gc

import pytest
import torch

from .support import make, train_step

pytestmark = pytest.mark.usefixtures("collected")

KEYS = {
    "Limit",
    "InUse",
    "MaxInUse",
    "NumAllocs",
    "NumFrees",
    "ActiveAllocs",
    "MaxAllocSize",
    "TotalSystemAllocs",
    "TotalSystemFrees",
    "TotalActiveAllocs",
}


def test_memory_freed_while_queued_is_reused_in_queue_order(gate):
    n = 1 << 20  # larger than the gaps that earlier tests left, which x and z may fit differently

    def program():
        x = torch.full((n,), 3.0, device="hpu")
        y = x * 2  # reads x's memory later than the host frees it
        address = x.data_ptr()
        del x
        z = torch.full((n,), 5.0, device="hpu")  # takes that memory, written after y was computed
        return address, y, z

    program()
    with gate:
        address, y, z = program()
        assert z.data_ptr() == address
    assert y.eq(6).all()
    assert z.eq(5).all()


def test_the_ten_statistics_have_gaudis_names():
    assert {name: type(value) for name, value in torch.hpu.memory_stats().items()} == dict.fromkeys(KEYS, int)


def test_statistics_count_allocations_and_frees():
    before = torch.hpu.memory_stats()
    x = torch.zeros(1000, device="hpu")
    torch.hpu.synchronize()  # a lazy step allocates at its end
    during = torch.hpu.memory_stats()
    assert during["NumAllocs"] - before["NumAllocs"] == 1
    assert during["ActiveAllocs"] - before["ActiveAllocs"] == 1
    assert during["InUse"] - before["InUse"] == 4096
    del x
    after = torch.hpu.memory_stats()
    assert after["NumFrees"] - before["NumFrees"] == 1
    assert after["InUse"] == before["InUse"]


def test_the_peak_is_kept_until_it_is_reset():
    torch.hpu.reset_peak_memory_stats()
    base = torch.hpu.max_memory_allocated()
    assert base == torch.hpu.memory_allocated()
    x = torch.zeros(1 << 20, device="hpu")
    torch.hpu.synchronize()  # in lazy mode, what dies within a step was never allocated
    del x
    assert torch.hpu.max_memory_allocated() == base + (4 << 20)
    x = torch.zeros(1, device="hpu")
    torch.hpu.synchronize()
    assert torch.hpu.max_memory_allocated() == base + (4 << 20)  # less has come after it
    del x
    torch.hpu.reset_peak_memory_stats()
    assert torch.hpu.max_memory_allocated() == base


def test_torch_accelerator_sees_the_same_numbers():
    x = torch.empty(1 << 16, device="hpu")
    assert torch.accelerator.memory_allocated() == torch.hpu.memory_allocated() >= x.nbytes
    assert torch.accelerator.max_memory_allocated() == torch.hpu.max_memory_allocated()
    free, total = torch.accelerator.get_memory_info()
    assert (free, total) == torch.hpu.mem_get_info()
    assert total - free == torch.hpu.memory_allocated()


def test_a_tensor_without_elements_takes_no_memory():
    before = torch.hpu.memory_allocated()
    x = torch.empty(0, 7, device="hpu")
    assert torch.hpu.memory_allocated() == before
    assert x.data_ptr() == 0


def test_an_operator_that_fails_leaks_nothing():
    x, y = torch.ones(100, 3, device="hpu"), torch.ones(100, 4, device="hpu")
    before = torch.hpu.memory_allocated()
    for function in (torch.add, torch.matmul) * 3:
        with pytest.raises(RuntimeError):
            function(x, y)
    assert torch.hpu.memory_allocated() == before


def test_empty_cache_keeps_live_tensors():
    x = torch.arange(1 << 16, device="hpu")
    torch.hpu.empty_cache()
    torch.accelerator.empty_cache()
    torch.accelerator.empty_host_cache()
    assert x.sum().item() == (1 << 16) * ((1 << 16) - 1) // 2


@pytest.mark.parametrize(("name", "steps"), [("mlp", 2000), ("gpt", 200), ("convnet", 1)])
def test_training_does_not_grow_and_leaves_nothing(name, steps):
    def used():
        gc.collect()
        torch.hpu.synchronize()
        stats = torch.hpu.memory_stats()
        return [stats[key] for key in ("InUse", "ActiveAllocs", "TotalActiveAllocs")]

    before = used()
    made = make(name, steps=3)
    during = used()
    assert during[0] > before[0]
    for _ in range(steps):
        train_step(*made)
    assert used() == during
    del made
    assert used()[:2] == before[:2]


def test_the_peak_of_a_training_step_is_that_of_the_cpu(script):
    """The CPU's is measured by PyTorch's own profiler of allocations."""
    code = """
        from torch.profiler import ProfilerActivity, profile

        def warm(device):
            torch.manual_seed(0)
            layers = [m for _ in range(6) for m in (nn.Linear(256, 256), nn.ReLU())]
            model, x = nn.Sequential(*layers).to(device), torch.ones(256, 256, device=device)
            step = lambda: model(x).square().mean().backward()
            step()
            model.zero_grad()
            return step

        step = warm("hpu")
        torch.hpu.synchronize()
        base = torch.hpu.memory_allocated()
        torch.hpu.reset_peak_memory_stats()
        step()
        on_hpu = torch.hpu.max_memory_allocated() - base
        step = warm("cpu")
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as prof:
            step()
        events = sorted(prof.profiler.kineto_results.events(), key=lambda e: e.start_ns())
        peak = max(itertools.accumulate(e.nbytes() for e in events if e.name() == "[memory]"))
        assert peak > 1 << 20, (on_hpu, peak)
        assert on_hpu <= 1.05 * peak, (on_hpu, peak)
        """
    script(code, warnings="default")


def test_out_of_memory_says_what_is_in_use_and_the_device_stays_usable(script):
    code = """
    x = torch.ones(1 << 20, device="hpu")
    with pytest.raises(torch.OutOfMemoryError) as error:
        torch.empty(1 << 30, device="hpu")
    (text,) = error.value.args
    assert isinstance(error.value, RuntimeError)
    assert "FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed" in text
    for part in ("in use", "limit 268435456 (256.00 MB)", "largest free block"):
        assert part in text
    y = x + 1
    torch.hpu.synchronize()
    assert torch.hpu.memory_allocated() == 2 * x.nbytes
    assert y.sum().item() == 2 << 20
    """
    script(code, OPENHPU_MEMORY_GB="0.25")


def test_temporaries_of_kernels_do_not_count_as_tensors():
    x = torch.ones(64, 64, device="hpu")
    torch.linalg.inv(x + torch.eye(64, device="hpu") * 100)
    torch.hpu.synchronize()
    before = torch.hpu.memory_allocated()
    y = torch.linalg.inv(x + torch.eye(64, device="hpu") * 100)
    torch.hpu.synchronize()
    assert torch.hpu.memory_allocated() == before + y.nbytes


def test_the_device_never_asks_the_machine_for_more_than_it_has(script):
    """Nor for memory of its kernels and pinned memory. 128 MB of what is available are kept for the host."""
    code = """
    def write(file, *words):
        os.makedirs(os.path.dirname(f"machine/{file}"), exist_ok=True)
        with open(f"machine/{file}", "w") as made:
            print(*words, file=made)

    def available(megabytes):
        write("proc/meminfo", "MemTotal: 1048576 kB\\nMemAvailable:", megabytes << 10, "kB")
        _C.set_machine_root("machine")

    def zeros(megabytes):
        x = torch.zeros(megabytes << 20, dtype=torch.uint8, device="hpu")
        torch.hpu.synchronize()
        return x

    def refused(function, bound="MemAvailable"):
        with pytest.raises(torch.OutOfMemoryError, match=f"(?=.*Allocation failed)(?=.*{bound})(?=.*128 MB kept)"):
            function()

    kept, small = torch.ones(1000, device="hpu"), torch.zeros(96 << 20, dtype=torch.uint8)
    known = (kept + 1).sum().item()
    available(128 + 64)
    refused(lambda: zeros(200))
    assert (kept + 1).sum().item() == 2000
    refused(small.pin_memory)
    assert small.narrow(0, 0, 100).pin_memory().sum().item() == 0

    available(1000)
    x = small.to("hpu")
    available(128 + 40)
    refused(lambda: torch.median(x).item())  # copies its operand
    assert (kept + 1).sum().item() == 2000
    available(1000)
    assert torch.median(x).item() == 0

    available(128 + 300)
    assert zeros(200).sum().item() == 0
    write("proc/self/cgroup", "0::/")
    write("sys/fs/cgroup/memory.max", 240 << 20)
    write("sys/fs/cgroup/memory.current", 9)
    refused(lambda: zeros(800), "the limit of 240 MB in machine/sys/fs/cgroup/memory.max")
    """
    script(code, OPENHPU_MEMORY_GB="4")
