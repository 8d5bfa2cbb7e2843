import struct

import pytest
import torch


def test_states_restore(hpu):
    state = hpu.get_rng_state()
    assert state.device.type == "cpu"
    assert state.dtype == torch.uint8
    first = torch.rand(5, device="hpu")
    hpu.set_rng_state(state)
    assert torch.equal(first, torch.rand(5, device="hpu"))
    states = hpu.get_rng_state_all()
    first = [torch.rand(3, generator=generator, device=generator.device) for generator in hpu.default_generators[:2]]
    hpu.set_rng_state_all(states)
    again = [torch.rand(3, generator=generator, device=generator.device) for generator in hpu.default_generators[:2]]
    assert all(map(torch.equal, first, again))
    assert not torch.equal(first[0].cpu(), first[1].cpu())


def test_seeds(hpu):
    hpu.manual_seed_all(11)
    assert [generator.initial_seed() for generator in hpu.default_generators] == [11] * 8  # every index
    assert hpu.random.default_generators[0].initial_seed() == 11
    assert hpu.seed() == hpu.initial_seed()
    assert torch.seed() == hpu.initial_seed()
    assert hpu.seed_all() == hpu.initial_seed()
    hpu.manual_seed(3)
    assert hpu.initial_seed() == 3


def test_philox_states(hpu):
    torch.manual_seed(5)
    hpu.set_rng_ctx("philox")
    try:
        state = hpu.get_rng_state()
        assert struct.unpack("<QQ", bytes(state.tolist())) == (5, 0)
        moved = torch.frombuffer(bytearray(struct.pack("<QQ", 5, 8)), dtype=torch.uint8)
        hpu.set_rng_state(moved)
        assert torch.equal(hpu.get_rng_state(), moved)
        first = torch.rand(3, device="hpu")
        hpu.set_rng_state(moved)
        assert torch.equal(first, torch.rand(3, device="hpu"))
        torch.manual_seed(9)
        assert struct.unpack("<QQ", bytes(hpu.get_rng_state().tolist())) == (9, 0)
        with pytest.raises(RuntimeError, match="16 bytes"):
            hpu.set_rng_state(torch.zeros(3, dtype=torch.uint8))
    finally:
        hpu.unset_rng_ctx("philox")
    assert hpu.get_rng_state().numel() > 16
    with pytest.raises(ValueError, match="philox"):
        hpu.set_rng_ctx("mt19937")
