"""Random numbers: each device's default generator, its seed and its state."""

import contextlib
import struct
from collections.abc import Iterable

import torch

from openhpu import _C, settings
from openhpu.device import lifecycle
from openhpu.device.arguments import DeviceArgument, _get_device_index

__all__ = [
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_ctx",
    "set_rng_state",
    "set_rng_state_all",
    "unset_rng_ctx",
]

_MASK = (1 << 64) - 1

# Within set_rng_ctx("philox") a state is 16 bytes, seed and offset, as DTensor's random numbers need it. A
# generator that was given such a state is seeded from both; this keeps the pair for a later request.
_philox_depth = 0
_philox_pairs: dict[int, tuple[int, int]] = {}


def _generator(device: DeviceArgument) -> torch.Generator:
    return _C.default_generator(_get_device_index(device, optional=True))


def _generators() -> tuple[torch.Generator, ...]:
    with contextlib.suppress(settings.SettingError):  # torch.manual_seed is called by scripts that use no hpu, too
        lifecycle.configure()
    return tuple(_C.default_generator(index) for index in range(_C.device_count()))


def get_rng_state(device: DeviceArgument = "hpu") -> torch.Tensor:
    """The state of the device's default generator, a CPU tensor of bytes."""
    if _philox_depth:
        seed, offset = _philox_pair(_get_device_index(device, optional=True))
        return torch.frombuffer(bytearray(struct.pack("<QQ", seed, offset)), dtype=torch.uint8)
    return _generator(device).get_state()


def set_rng_state(new_state: torch.Tensor, device: DeviceArgument = "hpu") -> None:
    """Set a state that `get_rng_state` returned."""
    if _philox_depth:
        index = _get_device_index(device, optional=True)
        if new_state.dtype != torch.uint8 or new_state.numel() != 16:
            raise RuntimeError("a philox state is a tensor of 16 bytes: seed and offset")
        seed, offset = struct.unpack("<QQ", new_state.cpu().contiguous().numpy().tobytes())
        _philox_pairs[index] = (seed, offset)
        _C.default_generator(index).manual_seed(_mixed(seed, offset))
        return
    _generator(device).set_state(new_state)


def get_rng_state_all() -> list[torch.Tensor]:
    """The state of every device's generator."""
    return [get_rng_state(index) for index in range(len(_generators()))]


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    """Set the states that `get_rng_state_all` returned."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


def manual_seed(seed: int) -> None:
    """Seed the current device's generator."""
    _generator(None).manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    """Seed every device's generator."""
    for generator in _generators():
        generator.manual_seed(int(seed))


def seed() -> int:
    """Seed the current device's generator with a random number, and return that."""
    return _generator(None).seed()


def seed_all() -> int:
    """Seed every device's generator with the same random number, and return that."""
    first, *others = _generators()
    chosen = first.seed()
    for generator in others:
        generator.manual_seed(chosen)
    return chosen


def initial_seed() -> int:
    """The seed of the current device's generator."""
    return _generator(None).initial_seed()


def set_rng_ctx(kind: str) -> None:
    """Let states be 16-byte philox states (seed, offset) until `unset_rng_ctx`. `kind` is "philox"."""
    global _philox_depth
    _check_kind(kind)
    _philox_depth += 1


def unset_rng_ctx(kind: str) -> None:
    """Undo `set_rng_ctx`."""
    global _philox_depth
    _check_kind(kind)
    _philox_depth = max(0, _philox_depth - 1)


def _check_kind(kind: str) -> None:
    if kind != "philox":
        raise ValueError(f'the only context of random number states is "philox", but got {kind!r}')


def _philox_pair(index: int) -> tuple[int, int]:
    current = _C.default_generator(index).initial_seed()
    pair = _philox_pairs.get(index)
    if pair is not None and _mixed(*pair) == current:
        return pair
    return current & _MASK, 0  # seeded since: the pair is out of date


def _mixed(seed: int, offset: int) -> int:
    """One seed from seed and offset (splitmix64); the seed itself at offset 0."""
    if offset == 0:
        return seed
    z = (seed + offset * 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def __getattr__(name: str) -> tuple[torch.Generator, ...]:
    if name == "default_generators":
        return _generators()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
