"""Every scheduler's whole way from noise, on hpu and on the CPU, with the same noise."""

import inspect
from functools import partial

import diffusers
import pytest
import torch

from ecosystem.both import assert_same
from ecosystem.diffusers.parts import SCHEDULERS


def denoised(name, device, steps=6):
    """With a generator of the CPU, from which the noise is copied to the device: the same on both."""
    scheduler = getattr(diffusers, name)()
    scheduler.set_timesteps(steps, device=device)
    generator = torch.Generator().manual_seed(0)
    sample = torch.randn(1, 3, 8, 8, generator=generator).to(device) * getattr(scheduler, "init_noise_sigma", 1)
    options = {"generator": generator} if "generator" in inspect.signature(scheduler.step).parameters else {}
    for time in scheduler.timesteps:
        scaled = scheduler.scale_model_input(sample, time) if hasattr(scheduler, "scale_model_input") else sample
        guess = torch.tanh(scaled * 0.5) + 0.01 * time / 1000
        sample = scheduler.step(guess, time, sample, **options).prev_sample
    return sample


@pytest.mark.parametrize("name", SCHEDULERS)
def test_steps(name):
    assert_same(partial(denoised, name), rtol=1e-3, atol=1e-4)
