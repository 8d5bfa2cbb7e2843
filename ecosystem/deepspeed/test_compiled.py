"""Operators that DeepSpeed compiles with the host's compiler: Adam in host memory, input and output of NVMe's files."""

import tempfile

import pytest
import torch

from tests.deepspeed import training
from tests.deepspeed.test_offload import libaio, offloaded, same_as_cpu, with_torch

needs_libaio = pytest.mark.skipif(not libaio(), reason="libaio-dev is not installed")


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize(("stage", "parameters"), [(1, None), (2, None), (3, None), (3, "cpu")])
def test_adam_in_host_memory(stage, parameters, precision):
    """DeepSpeedCPUAdam."""
    same_as_cpu(offloaded(stage, precision, "cpu", parameters), stage, precision)


@needs_libaio
@pytest.mark.parametrize(("optimizer", "parameters"), [("nvme", None), ("nvme", "nvme"), ("cpu", "nvme")])
def test_in_files(tmp_path, optimizer, parameters):
    settings = with_torch(offloaded(3, "bf16", optimizer, parameters, str(tmp_path)))
    settings["aio"] = {"block_size": 4096, "queue_depth": 4, "single_submit": False, "overlap_events": True}
    found = training.on_hpu(training.train, settings, 3, **training.LARGE)
    expected = training.on_hpu(training.train, with_torch(training.config(3, "bf16")), 3, **training.LARGE)
    for mine, theirs in zip(found, expected, strict=True):
        assert mine == pytest.approx(theirs, rel=training.TOLERANCE["bf16"])
    assert any(path.stat().st_size for path in tmp_path.rglob("*.swp"))


def read_to(skipped):
    """Numbers out of a file by way of DeepSpeed, to pinned memory so many bytes behind an aligned place."""
    with training.deepspeed_alone() as deepspeed, tempfile.NamedTemporaryFile(dir=".") as file:
        numbers = torch.arange(1 << 18, dtype=torch.float32)
        numbers.numpy().tofile(file.name)
        from deepspeed.ops.op_builder import AsyncIOBuilder

        handle = AsyncIOBuilder().load().aio_handle(block_size=4096, queue_depth=4, single_submit=False)
        whole = deepspeed.accelerator.get_accelerator().pin_memory(torch.zeros(len(numbers) + 2048))
        begin = (skipped - whole.data_ptr()) % 4096 // 4
        memory = whole[begin : begin + len(numbers)]
        if handle.is_pinned(memory):
            assert handle.async_pread(memory, file.name, 0) == 0
            assert handle.wait() == 1
        return handle.is_pinned(memory), torch.equal(memory, numbers)


@needs_libaio
@pytest.mark.parametrize("skipped", [0, 64, 1024, 4032])
def test_pinned_memory_is_read_to_where_it_is_aligned(skipped):
    ((pinned, equal),) = training.on_hpu(read_to, skipped, size=1)
    assert pinned == equal == (skipped % 1024 == 0)
