import pytest
import torch


def test_functions_before_a_device_is_open(script):
    code = """
        import torch, habana_frameworks.torch
        h = torch.hpu
        print(h.is_available(), h.device_count(), h.current_device(), h.get_device_name(), h.memory_allocated())
        h.set_device(0); h.reset_peak_memory_stats(); h.empty_cache(); torch.manual_seed(3); h.get_rng_state()
        print(h.is_initialized(), h._initialized)
        h.init()
        print(h.is_initialized(), h._initialized)
        """
    result = script(code, OPENHPU_DEVICE_COUNT="8")
    assert result.out.splitlines() == ["True 8 0 GAUDI2 0", "False False", "True True"]


@pytest.mark.parametrize(("where", "error"), [("cpu", ValueError), (1.5, TypeError), (True, TypeError)])
def test_what_is_no_hpu_device(hpu, where, error):
    with pytest.raises(error, match="expected"):
        hpu.synchronize(where)


def test_an_hpu_device_without_an_index_is_the_current_one(hpu):
    assert hpu._get_device_index("hpu:0") == hpu._utils._get_device_index("hpu", optional=True) == 0
    with pytest.raises(ValueError, match="with an index"):
        hpu._utils._get_device_index("hpu")
    assert hpu._utils._get_device_index("cpu", allow_cpu=True) == -1


def test_contexts(script):
    code = """
        import torch, habana_frameworks.torch
        h = torch.hpu
        with h.device(1):
            print(h.current_device(), torch.ones(1, device="hpu").device)
            with h.device(None), h.device(-1):
                print(h.current_device())
        x = torch.ones(1, device="hpu:1")
        with h.device_of(x):
            print(h.current_device())
        with h.device_of(x.cpu()):
            print(h.current_device())
        h.set_device("hpu:1")
        print(h.current_device(), h.can_device_access_peer(0, 1), h.can_device_access_peer(1, 1))
        """
    result = script(code, OPENHPU_DEVICE_COUNT="2")
    assert result.out.splitlines() == ["1 hpu:1", "1", "1", "0", "1 True False"]


def test_properties(hpu):
    properties = hpu.get_device_properties()
    assert properties.name == "GAUDI2"
    torch.empty(1, device="hpu")  # until it is open its capacity is what the machine has left at the moment
    assert hpu.get_device_properties().total_memory == hpu.mem_get_info()[1]
    text = str(properties)
    assert text.startswith("(sramBaseAddress=")
    for name in ("dramBaseAddress", "sramSize", "dramSize", "tpcEnabledMask", "dramEnabled", "fd", "device_id"):
        assert f"{name}=" in text
    assert hpu.get_device_capability() == "1.24.1"


@pytest.mark.parametrize(("generation", "half"), [("gaudi", False), ("gaudi2", True), ("gaudi3", True)])
def test_generations(hpu, environment, generation, half):
    environment(OPENHPU_GENERATION=generation)
    assert hpu.get_device_name() == generation.upper()
    assert hpu.get_arch_list() == [generation]
    assert (torch.float16 in hpu.get_amp_supported_dtype()) is half
    assert torch.bfloat16 in hpu.get_amp_supported_dtype()
    assert hpu.is_bf16_supported()
