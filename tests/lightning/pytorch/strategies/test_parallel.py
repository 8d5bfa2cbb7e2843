"""HPUParallelStrategy."""

import pytest

from lightning_habana import fabric, pytorch

SEVERAL_DEVICES = [pytorch.HPUParallelStrategy, pytorch.HPUDDPStrategy, pytorch.HPUFSDPStrategy]


@pytest.mark.parametrize("kind", [*SEVERAL_DEVICES, fabric.HPUDDPStrategy, fabric.HPUFSDPStrategy])
def test_backend_before_setup(kind):
    assert kind().process_group_backend == "hccl"
    assert kind(process_group_backend="cpu:gloo,hpu:hccl").process_group_backend == "cpu:gloo,hpu:hccl"
