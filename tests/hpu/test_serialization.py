"""Saving and loading, between devices and processes."""

import io

import pytest
import torch


def through_a_file(value, **options):
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return torch.load(buffer, **options)


@pytest.mark.parametrize("location", [None, "hpu", "hpu:0", torch.device("hpu"), lambda storage, place: storage.hpu()])
def test_a_tensor_comes_back_on_its_device(location):
    x = torch.arange(6.0, device="hpu").view(2, 3).t()
    again = through_a_file(x, map_location=location)
    assert again.device == torch.device("hpu:0")
    assert again.stride() == x.stride()
    assert torch.equal(again, x)


def test_saving_waits_for_the_queue():
    x = torch.zeros(1000, device="hpu")
    for _ in range(100):
        x.add_(1)
    assert through_a_file(x).unique().tolist() == [100.0]


def test_a_checkpoint_of_hpu_loads_where_there_is_no_hpu(script, tmp_path):
    torch.save(torch.nn.Linear(3, 2).to("hpu").state_dict(), tmp_path / "x.pt")
    code = """
        import torch
        assert not hasattr(torch, "hpu")
        assert torch.load("x.pt", map_location="cpu")["weight"].shape == (2, 3)
    """
    script(code, bare=True, TORCH_DEVICE_BACKEND_AUTOLOAD="0")


def test_an_index_that_does_not_exist_is_an_error(script, tmp_path):
    script("torch.save(torch.ones(2, device='hpu:8'), 'x.pt')", OPENHPU_DEVICE_COUNT="9")
    with pytest.raises(RuntimeError, match="HPU device index 8 is out of range"):
        torch.load(tmp_path / "x.pt")
    assert torch.load(tmp_path / "x.pt", map_location="hpu:0").device.index == 0


def test_every_index_is_loaded_where_there_are_fewer_cores(script):
    code = """
        import io, os, pickle
        os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
        import torch
        x = torch.arange(3.0, device="hpu:5")
        file = io.BytesIO()
        torch.save(x, file)
        file.seek(0)
        for again in torch.load(file), pickle.loads(pickle.dumps(x)):
            assert again.device == torch.device("hpu:5")
            assert torch.equal(again, x)
        assert torch.hpu.device_count() == 1
    """
    script(code, bare=True)
