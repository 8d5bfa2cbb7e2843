"""How many threads there are, where they may run, and that it makes no difference which of them runs a command."""

from textwrap import dedent

import pytest

from openhpu._machine import usable_cores

from .conftest import IMPORTS

ONE_CORE = """
import os
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
"""

TRAINING = """
    from openhpu._machine import usable_cores

    def train(steps=4, width=300, norm=nn.Identity, lr=1e-3):
        torch.manual_seed(0)
        hidden = nn.Linear(64, width), norm(width), nn.ReLU(), nn.Linear(width, width), norm(width), nn.ReLU()
        model = nn.Sequential(*hidden, nn.Linear(width, 10)).to("hpu")
        optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
        x, y = torch.randn(256, 64).to("hpu"), torch.randint(10, (256,)).to("hpu")
        losses = []
        for _ in range(steps):
            loss = train_step(model, optimizer, x, y)
            htcore.mark_step()
            losses.append(loss.item())
        return losses

    def tasks():
        found = {}
        for task in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{task}/status") as file:
                fields = dict(line.split(":", 1) for line in file)
            found[task] = (fields["Name"].strip(), fields["Cpus_allowed_list"].strip())
        return found
"""
KERNEL_THREADS = "    train(1)\n    print(_C.kernel_threads(), usable_cores())"


@pytest.fixture
def trained(script):
    """`script`, with `train` and `tasks`."""
    return lambda code, **variables: script(TRAINING + code, **variables)


@pytest.fixture
def alone(script):
    """`script` on one core, where every command runs on the thread that submits it."""
    return lambda code, **variables: script(ONE_CORE + IMPORTS + dedent(code), bare=True, **variables)


def test_every_thread_may_run_where_the_process_may(trained):
    """And those of a device are bounded."""
    trained("""
    def allowed():
        return {cores for _, cores in tasks().values()}
    torch.randn(400, 400) @ torch.randn(400, 400)  # the script's own team
    before = tasks()
    main = {before[str(os.getpid())][1]}
    train()
    assert allowed() == main
    # Kernels of two sizes, other threads that feed the device, the script's own work on the CPU.
    x = torch.ones(600, 600, device="hpu")
    for _ in range(3):
        other = threading.Thread(target=train)
        other.start()
        other.join()
        torch.randn(400, 400) @ torch.randn(400, 400)
        (x @ x).sum().item()
        train()
    assert allowed() == main
    # Teams take the name of who made them.
    made = [name for task, (name, _) in tasks().items() if task not in before and name.startswith("hpu:")]
    assert len(made) <= _C.kernel_threads() <= usable_cores()
    """)


def test_a_process_of_one_core_has_no_worker_and_computes_the_same(alone, trained):
    code = "    print(*train(), sum(name == 'hpu:0' for name, _ in tasks().values()), _C.kernel_threads())"
    *losses, workers, threads = alone(TRAINING + code).out.split()
    assert (workers, threads) == ("0", "1")
    *beside, _, threads = trained("    torch.set_num_threads(1)\n" + code).out.split()
    assert threads == "1"
    assert losses == beside


@pytest.mark.parametrize("binding", [{"OMP_PROC_BIND": "true"}, {"OMP_PLACES": "threads"}])
def test_a_bound_main_thread_leaves_the_device_all_cores(trained, binding):
    code = """
    import os
    losses = train(width=600)
    workers = {cores for name, cores in tasks().values() if name == "hpu:0"}  # and the other threads of its team
    print(*losses, _C.kernel_threads(), usable_cores(), *workers, len(os.sched_getaffinity(0)))
    """
    *bound, main = trained(code, **binding).out.split()
    *unbound, _ = trained(code).out.split()
    assert bound == unbound
    assert main == "1"  # the script's own binding stays


def test_a_script_that_binds_itself_keeps_to_its_core(script):
    bind = "    os.sched_setaffinity(0, {max(cores)})\n"
    code = "import os\ncores = os.sched_getaffinity(0)\n" + IMPORTS + dedent(bind + TRAINING + KERNEL_THREADS)
    assert script(code, bare=True, OMP_PROC_BIND="true").out == "1 1"


@pytest.mark.parametrize("processes", [1, 2, 64])
def test_ranks_of_a_launcher_share_the_cores(trained, processes):
    """More threads than cores are not used."""
    cores = usable_cores()
    launched = {"LOCAL_WORLD_SIZE": str(processes), "LOCAL_RANK": "0"} if processes > 1 else {}
    out = trained(KERNEL_THREADS, OMP_NUM_THREADS="64", **launched).out
    assert out.split() == [str(max(1, cores // processes)), str(cores)]


def test_the_scripts_own_number_of_threads_stays(alone):
    alone(f"""{TRAINING}
    torch.set_num_threads(3)
    train()
    assert torch.get_num_threads() == 3
    assert _C.kernel_threads() == 1
    """)


def test_modes_of_the_host_do_not_reach_commands_that_it_runs(alone):
    code = """
    from torch.utils._python_dispatch import TorchDispatchMode

    x = torch.full((8, 8), 1e-30, device="hpu")
    expected = (x * 1e-10).cpu()
    assert expected[0, 0] > 0

    if torch.set_flush_denormal(True):
        assert torch.equal((x * 1e-10).cpu() > 0, expected > 0)
        assert (torch.tensor([1e-30]) * 1e-10).item() == 0  # the script's own setting is as it was
        torch.set_flush_denormal(False)

    a = torch.full((8, 8), 1.001, device="hpu")
    exact = (a @ a).cpu()
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal((a @ a).cpu(), exact)

    class Devices(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.extend(v.device.type for v in args if isinstance(v, torch.Tensor))
            return func(*args, **(kwargs or {}))

    seen = []
    with Devices():
        (a @ a).add(1).sum().item()
    assert set(seen) == {"hpu"}, seen

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        (a @ a).sum().item()
    names = [event.name for event in profile.events()]
    assert names.count("aten::mm") == 1, names

    y = torch.ones(4, device="hpu", requires_grad=True)
    (y * 3).sum().backward()
    assert y.grad.tolist() == [3.0] * 4
    assert torch.is_grad_enabled()
    assert not torch.is_inference_mode_enabled()
    with torch.inference_mode():
        z = (a + 1).cpu()
    assert z.is_inference()
    """
    alone(code)


def test_an_error_of_a_command_that_the_host_ran_is_reported_like_any_other(alone):
    code = """
    table, index = torch.ones(3, 2, device="hpu"), torch.zeros(2, dtype=torch.long, device="hpu")
    torch.nn.functional.embedding(index, table)
    torch.nn.functional.embedding(index + 9, table)
    with pytest.raises(IndexError, match="The operator aten::"):
        torch.hpu.synchronize()
    assert (table + 1).sum().item() == 12
    """
    alone(code, OPENHPU_OUT_OF_RANGE="error")


def test_a_new_thread_that_runs_a_kernel_in_the_workers_place_gives_it_the_same_threads(alone):
    """PyTorch sets a thread's number at its first kernel: with more threads, sums are rounded otherwise."""
    alone("""
    torch.set_num_threads(2)
    tensors = [torch.rand(1_000_000, device="hpu") for _ in range(8)]
    here, there = [x.sum().item() for x in tensors], []
    for x in tensors:
        thread = threading.Thread(target=lambda: there.append(x.sum().item()))
        thread.start()
        thread.join()
    assert here == there
    """)


def test_a_training_gives_the_same_bits_each_time(trained):
    """Whichever thread runs a kernel, with a number of threads that the script has set: PyTorch sets it for each thread
    at a first kernel, also at the first one of the device's own library."""
    trained("""
    torch.set_num_threads(2)
    assert len({tuple(train(5, 96, nn.LayerNorm, lr=1e-2)) for _ in range(30)}) == 1
    """)
