"""Forked processes: before the first use they are free, after it they get a clear error; loaders work."""

import pytest
import torch
from torch.utils.data import DataLoader, Dataset


def test_a_child_forked_after_the_first_use_gets_an_error_and_the_parent_goes_on(script):
    code = """
        import os, torch
        x = torch.ones(3, device="hpu")
        torch.hpu.synchronize()
        pid = os.fork()
        if pid == 0:
            for use in (
                lambda: torch.ones(1, device="hpu"), lambda: torch.ones(1).to("hpu"), lambda: x + 1,
                lambda: x.cpu(), lambda: torch.hpu.synchronize(), lambda: x.sum().item(), lambda: torch.hpu.Stream(),
                lambda: torch.empty(1).pin_memory().to("hpu"), lambda: torch.hpu.current_stream().synchronize(),
            ):
                try:
                    use()
                except RuntimeError as error:
                    assert "fork" in str(error), error
                else:
                    os._exit(1)
            if not torch.hpu._is_in_bad_fork() or torch.hpu.is_initialized():
                os._exit(2)
            torch.ones(2) + 1  # the CPU is unaffected
            del x
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), (x + 1).tolist())
    """
    assert script(code).out == "0 [2.0, 2.0, 2.0]"


def test_the_error_names_the_remedy(script):
    code = """
        import multiprocessing, torch
        torch.ones(1, device="hpu")

        def work(queue):
            try:
                torch.ones(1, device="hpu")
            except RuntimeError as error:
                queue.put(str(error))

        context = multiprocessing.get_context("fork")
        queue = context.Queue()
        process = context.Process(target=work, args=(queue,))
        process.start()
        print(queue.get())
        process.join()
    """
    text = script(code).out
    assert "forked" in text
    assert "spawn" in text


def test_a_child_ends_cleanly_with_tensors_and_work_of_its_parent(script):
    code = """
        import os, sys, torch
        x = torch.ones(3, device="hpu")
        for _ in range(100):
            x = x + 1
        pid = os.fork()
        if pid == 0:
            sys.exit(0)  # runs exit handlers and destructors
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), x[0].item())
    """
    assert script(code).out == "0 101.0"


def test_a_child_forked_before_the_first_use_has_a_device_of_its_own(script):
    code = """
        import os, torch
        pid = os.fork()
        value = torch.ones(3, device="hpu").sum().item()
        if pid == 0:
            os._exit(0 if value == 3 else 1)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), value)
    """
    assert script(code).out == "0 3.0"


def test_spawned_processes_work(script, tmp_path):
    program = tmp_path / "spawned.py"
    program.write_text(
        "import torch\n"
        "def work(rank, results):\n"
        "    results[rank] = torch.full((2,), float(rank), device='hpu').sum().cpu()[None]\n"
        "if __name__ == '__main__':\n"
        "    torch.ones(1, device='hpu')\n"
        "    results = torch.zeros(2).share_memory_()\n"
        "    torch.multiprocessing.spawn(work, (results,), nprocs=2)\n"
        "    print(results.tolist())\n"
    )
    assert script(f"import runpy; runpy.run_path({str(program)!r}, run_name='__main__')").out == "[0.0, 2.0]"


class Numbers(Dataset):
    def __len__(self):
        return 20

    def __getitem__(self, i):
        return torch.tensor(float(i))


@pytest.mark.parametrize("pin_memory", [False, True])
def test_loader_workers_are_forked_after_the_device_was_used(pin_memory):
    total = torch.zeros((), device="hpu")
    for _ in range(2):
        for batch in DataLoader(Numbers(), batch_size=4, num_workers=2, pin_memory=pin_memory):
            total += batch.to("hpu", non_blocking=True).sum()
    assert total.item() == 380


def test_a_fork_with_a_busy_queue_does_not_hang(script):
    code = """
        import os, torch
        from openhpu import _C
        x = torch.zeros(4, device="hpu")
        x.add_(1)
        torch.hpu.synchronize()
        _C.block_queue(0)
        x.add_(1)
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        _C.unblock_queue(0)
        print(os.waitstatus_to_exitcode(status), x.tolist())
    """
    assert script(code).out == "0 [2.0, 2.0, 2.0, 2.0]"
