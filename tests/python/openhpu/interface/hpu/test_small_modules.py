"""autocast, switches, tensor_types, monitor."""

import pytest
import torch


def test_gaudis_names_for_autocast(hpu):
    assert not hpu.is_autocast_hpu_enabled()
    with torch.autocast("hpu"):
        assert hpu.is_autocast_hpu_enabled()
    assert hpu.get_autocast_hpu_dtype() == torch.bfloat16
    hpu.set_autocast_hpu_dtype(torch.float16)
    try:
        assert torch.get_autocast_dtype("hpu") == torch.float16
    finally:
        hpu.set_autocast_hpu_dtype(torch.bfloat16)
    hpu.set_autocast_hpu_enabled(True)
    assert torch.is_autocast_enabled("hpu")
    hpu.set_autocast_hpu_enabled(False)


def test_switches_hold(hpu):
    from openhpu import settings

    hpu.enable_dynamic_shape()
    assert hpu.get_dynamic_shape_status()
    assert settings.get("PT_HPU_ENABLE_REFINE_DYNAMIC_SHAPES")
    hpu.disable_dynamic_shape()
    assert not hpu.get_dynamic_shape_status()
    with hpu.sdp_kernel(enable_recompute=True):
        assert hpu.recompute_sdp_enabled()
    assert not hpu.recompute_sdp_enabled()


def test_a_folder_for_constant_sections(hpu, tmp_path):
    folder = tmp_path / "sections"
    hpu.enable_const_section_serialization(str(folder))
    (folder / "old.const_section").touch()
    (folder / "of the user").touch()
    hpu.enable_const_section_serialization(str(folder), clear_path=True)
    assert [file.name for file in folder.iterdir()] == ["of the user"]
    hpu.disable_const_section_serialization()
    with pytest.raises(OSError, match="of the user"):
        hpu.enable_const_section_serialization(str(folder / "of the user"))


def test_determinism_under_its_old_names(hpu):
    with pytest.warns(FutureWarning):
        hpu.setDeterministic(True)
    try:
        assert torch.are_deterministic_algorithms_enabled()
        with pytest.warns(FutureWarning):
            assert hpu.getDeterministic()
    finally:
        torch.use_deterministic_algorithms(False)


def test_legacy_tensor_types(hpu):
    x = hpu.FloatTensor(2, 3)
    assert (x.shape, x.dtype, x.device.type) == ((2, 3), torch.float32, "hpu")
    assert hpu.IntTensor([1, 2]).tolist() == [1, 2]
    assert hpu.HalfTensor(torch.Size([4])).numel() == 4
    assert hpu.LongTensor().numel() == 0
    assert isinstance(x, hpu.FloatTensor)
    assert not isinstance(x, hpu.DoubleTensor)
    assert not isinstance(x.cpu(), hpu.FloatTensor)
    assert hpu.FloatTensor(torch.ones(2)).is_hpu
    for arguments in ({"device": "cpu"}, {"dtype": torch.float64}):
        with pytest.raises(RuntimeError, match="FloatTensor"):
            hpu.FloatTensor(2, **arguments)
    with pytest.raises(RuntimeError, match=r"takes tensors of torch\.float32"):
        hpu.FloatTensor(torch.ones(2, dtype=torch.int32))


def test_every_legacy_type_has_its_dtype(hpu):
    for name in "BFloat16 Bool Byte Char Double Float Half Int Long Short".split():  # noqa: SIM905
        kind = getattr(hpu, f"{name}Tensor")
        assert kind(1).dtype is kind.dtype
        assert torch.empty(1, dtype=kind.dtype).type() == f"torch.{name}Tensor"


def test_utilization_is_a_share(hpu):
    hpu.utilization()
    torch.ones(100, 100, device="hpu").mm(torch.ones(100, 100, device="hpu"))
    hpu.synchronize()
    assert 0 <= hpu.utilization() <= 100


@pytest.mark.parametrize("wait", [torch.Tensor.item, torch.Tensor.nonzero])
def test_waits_can_warn(hpu, wait):
    assert hpu.get_sync_debug_mode() == 0
    x = torch.ones(1, device="hpu")
    hpu.set_sync_debug_mode("warn")
    try:
        assert hpu.get_sync_debug_mode() == 1
        with pytest.warns(UserWarning, match="the host waits for the hpu device") as caught:
            wait(x)
        assert caught[0].filename == __file__
    finally:
        hpu.set_sync_debug_mode("default")
    x.item()
    with pytest.raises(ValueError, match=r"'default' .0. or 'warn' .1."):
        hpu.set_sync_debug_mode("error")


def test_another_name_is_an_error(hpu):
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = hpu.no_such_name
