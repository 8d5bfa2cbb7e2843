"""Loading the device into PyTorch, in processes of their own."""


def test_import_torch_is_enough_and_opens_no_device_and_starts_no_thread(script):
    code = """
        import torch
        import os
        assert torch.hpu.is_available()
        assert torch.hpu.device_count() > 0
        assert not torch.hpu.is_initialized()
        import habana_frameworks.torch.core as htcore
        assert not torch.hpu.is_initialized()
        before = len(os.listdir("/proc/self/task"))
        assert torch.ones(2, device="hpu").sum().item() == 2
        assert torch.hpu.is_initialized()
        assert len(os.listdir("/proc/self/task")) > before
    """
    script(code, bare=True)


def test_the_cpu_allocator_stays_until_a_device_is_opened(script):
    code = """
        import threading, torch
        from openhpu import _C

        early = [torch.arange(float(n)) for n in range(1, 50)]
        assert not _C.kernel_allocator_installed()
        stop, errors = threading.Event(), []

        def on_cpu():
            while not stop.is_set():
                x = torch.ones(1000)
                if (x + x).sum() != 2000:
                    errors.append("wrong")

        threads = [threading.Thread(target=on_cpu) for _ in range(3)]
        for thread in threads:
            thread.start()
        x = torch.ones(1000, device="hpu")
        assert _C.kernel_allocator_installed()
        for n, t in enumerate(early, 1):
            t.resize_(1000 + n)  # memory of before grows
            assert t[: n].tolist() == list(map(float, range(n)))
            t.set_(torch.ones(3).untyped_storage())
        stop.set()
        for thread in threads:
            thread.join()
        print(errors, (x.cumsum(0) + x).sum().item(), torch.linalg.inv(torch.eye(3, device="hpu")).sum().item())
    """
    assert script(code, bare=True).out == "[] 501500.0 3.0"


def test_operators_registered_later_run_on_the_device(script):
    code = """
        import torch
        library = torch.library.Library("later", "DEF")
        for key, factor in (("CPU", 2), ("HPU", 3)):
            library.define(f"of_{key}(Tensor x) -> Tensor")
            library.impl(f"of_{key}", lambda x, factor=factor: x * factor, key)

        @torch.library.custom_op("mine::scale", mutates_args=(), device_types="hpu")
        def scale(x: torch.Tensor, by: float) -> torch.Tensor:
            return x * by

        x = torch.ones(3, device="hpu")
        for _ in range(3):
            for result, factor in ((torch.ops.later.of_CPU(x), 2), (torch.ops.later.of_HPU(x), 3), (scale(x, 4.0), 4)):
                assert result.device == x.device
                assert result.tolist() == [factor] * 3
    """
    script(code, bare=True)
