"""Device memory: reuse in queue order, statistics, capacity."""

import gc

import pytest
import torch

from .support import make, train_step

pytestmark = pytest.mark.usefixtures("collected")

KEYS = {
    "Limit", "InUse", "MaxInUse", "NumAllocs", "NumFrees", "ActiveAllocs", "MaxAllocSize", "TotalSystemAllocs",
    "TotalSystemFrees", "TotalActiveAllocs",
}  # fmt: skip


def in_use():
    """Bytes that live tensors hold."""
    return torch.hpu.memory_allocated()


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
    assert y.eq(6).all() and z.eq(5).all()


def test_the_ten_statistics_have_gaudis_names():
    assert set(torch.hpu.memory_stats()) == KEYS
    assert all(isinstance(value, int) for value in torch.hpu.memory_stats().values())


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
    assert base == in_use()
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
    assert torch.accelerator.memory_allocated() == in_use() >= x.nbytes
    assert torch.accelerator.max_memory_allocated() == torch.hpu.max_memory_allocated()
    free, total = torch.accelerator.get_memory_info()
    assert (free, total) == torch.hpu.mem_get_info()
    assert total - free == in_use()


def test_a_tensor_without_elements_takes_no_memory():
    before = in_use()
    x = torch.empty(0, 7, device="hpu")
    assert in_use() == before
    assert x.data_ptr() == 0


def test_an_operator_that_fails_leaks_nothing():
    x, y = torch.ones(100, 3, device="hpu"), torch.ones(100, 4, device="hpu")
    before = in_use()
    for _ in range(3):
        with pytest.raises(RuntimeError):
            x + y
        with pytest.raises(RuntimeError):
            x @ y
    assert in_use() == before


def test_empty_cache_keeps_live_tensors():
    x = torch.arange(1 << 16, device="hpu")
    torch.hpu.empty_cache()
    torch.accelerator.empty_cache()
    torch.accelerator.empty_host_cache()
    assert x.sum().item() == (1 << 16) * ((1 << 16) - 1) // 2


@pytest.mark.parametrize("name", ["mlp", "gpt"])
def test_two_thousand_training_steps_do_not_grow(name):
    model, optimizer, x, target = make(name)
    for _ in range(3):
        train_step(model, optimizer, x, target)
    before = torch.hpu.memory_stats()
    for _ in range(2000 if name == "mlp" else 200):
        train_step(model, optimizer, x, target)
    after = torch.hpu.memory_stats()
    for key in ("InUse", "ActiveAllocs", "TotalActiveAllocs"):
        assert after[key] == before[key], key


def test_dropping_model_and_optimizer_frees_everything():
    gc.collect()
    before = torch.hpu.memory_stats()
    model, optimizer, x, target = make("convnet")
    train_step(model, optimizer, x, target)
    assert in_use() > before["InUse"]
    del model, optimizer, x, target
    gc.collect()
    torch.hpu.synchronize()
    after = torch.hpu.memory_stats()
    assert (after["InUse"], after["ActiveAllocs"]) == (before["InUse"], before["ActiveAllocs"])


def test_the_peak_of_a_training_step_is_that_of_the_cpu(script):
    # The CPU's peak is measured by PyTorch's own profiler of allocations.
    code = """
        from torch.profiler import profile, ProfilerActivity

        def step(model, x):
            model(x).square().mean().backward()

        def build(device):
            torch.manual_seed(0)
            layers = [m for _ in range(6) for m in (nn.Linear(256, 256), nn.ReLU())]
            return nn.Sequential(*layers).to(device), torch.ones(256, 256, device=device)

        model, x = build("hpu")
        step(model, x)
        model.zero_grad()
        torch.hpu.synchronize()
        base = torch.hpu.memory_allocated()
        torch.hpu.reset_peak_memory_stats()
        step(model, x)
        peak_hpu = torch.hpu.max_memory_allocated() - base

        model, x = build("cpu")
        step(model, x)
        model.zero_grad()
        with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as prof:
            step(model, x)
        now = peak = 0
        for event in sorted(prof.profiler.kineto_results.events(), key=lambda e: e.start_ns()):
            if event.name() == "[memory]":
                now += event.nbytes()
                peak = max(peak, now)
        print(peak_hpu, peak)
        """
    result = script(code, warnings="default")
    hpu, cpu = map(int, result.out.split())
    assert cpu > 1 << 20
    assert hpu <= 1.05 * cpu


OUT_OF_MEMORY = """
    x = torch.ones(1 << 20, device="hpu")
    try:
        torch.empty(1 << 30, device="hpu")
    except torch.OutOfMemoryError as error:
        assert isinstance(error, RuntimeError)
        assert len(error.args) == 1
        print(error)
    y = x + 1
    print(torch.hpu.memory_allocated() == 2 * x.nbytes, y.sum().item())
"""


def test_out_of_memory_says_what_is_in_use_and_the_device_stays_usable(script):
    text = script(OUT_OF_MEMORY, OPENHPU_MEMORY_GB="0.25").out
    assert "FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed" in text
    for part in ("in use", "limit 268435456 (256.00 MB)", "largest free block"):
        assert part in text
    assert text.endswith("True 2097152.0")


def test_temporaries_of_kernels_do_not_count_as_tensors():
    x = torch.ones(64, 64, device="hpu")
    torch.linalg.inv(x + torch.eye(64, device="hpu") * 100)
    torch.hpu.synchronize()
    before = in_use()
    y = torch.linalg.inv(x + torch.eye(64, device="hpu") * 100)
    torch.hpu.synchronize()
    assert in_use() == before + y.nbytes


MACHINE = """

    os.makedirs("machine/proc")

    def available(megabytes):
        with open("machine/proc/meminfo", "w") as file:
            print("MemTotal: 1048576 kB\\nMemAvailable:", megabytes << 10, "kB", file=file)
        _C.set_machine_root("machine")

    def zeros(megabytes):
        x = torch.zeros(megabytes << 20, dtype=torch.uint8, device="hpu")
        torch.hpu.synchronize()
        return x

    def refused(function, bound="MemAvailable"):
        try:
            function()
        except torch.OutOfMemoryError as error:
            return [part in str(error) for part in ("Allocation failed", bound, "128 MB kept")]

    kept = torch.ones(1000, device="hpu")
    known = (kept + 1).sum().item()
    available(128 + 64)  # of which 128 are kept for the host
"""


@pytest.fixture
def machine(script):
    """`script`, after MACHINE."""
    return lambda code: script(MACHINE + code, OPENHPU_MEMORY_GB="4")


def test_the_device_never_asks_the_machine_for_more_than_it_has(machine):
    code = """
    print(refused(lambda: zeros(200)), (kept + 1).sum().item())
    available(128 + 300)
    print(zeros(200).sum().item())
    groups = {"proc/self/cgroup": "0::/", "sys/fs/cgroup/memory.max": 240 << 20, "sys/fs/cgroup/memory.current": 9}
    for file, text in groups.items():
        os.makedirs(os.path.dirname(f"machine/{file}"), exist_ok=True)
        with open(f"machine/{file}", "w") as made:
            print(text, file=made)
    print(refused(lambda: zeros(800), "the limit of 240 MB in machine/sys/fs/cgroup/memory.max"))
    """
    assert machine(code).out.splitlines() == ["[True, True, True] 2000.0", "0", "[True, True, True]"]


def test_scratch_memory_of_kernels_is_bounded_too(machine):
    code = """
    available(1000)
    x = zeros(96)
    available(128 + 40)
    found = refused(lambda: torch.median(x).item())  # copies its operand
    print(found, (kept + 1).sum().item())
    available(1000)
    print(torch.median(x).item())
    """
    assert machine(code).out.splitlines() == ["[True, True, True] 2000.0", "0"]


def test_pinned_memory_is_bounded_too(machine):
    code = """
    x = torch.zeros(200 << 20, dtype=torch.uint8)
    print(refused(x.pin_memory), x.narrow(0, 0, 100).pin_memory().sum().item())
    """
    assert machine(code).out == "[True, True, True] 0"
