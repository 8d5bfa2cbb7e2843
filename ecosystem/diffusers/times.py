"""A training step and a step of denoising, in lazy mode and on the CPU."""

from collections.abc import Callable
from functools import partial

import diffusers
import torch

from ecosystem import times

_SIZES = {
    "sample_size": 16, "in_channels": 4, "out_channels": 4, "cross_attention_dim": 64, "attention_head_dim": 8,
    "block_out_channels": (32, 64), "layers_per_block": 2, "norm_num_groups": 8,
    "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"), "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"),
}  # fmt: skip
_DIT = {
    "num_attention_heads": 4, "attention_head_dim": 16, "in_channels": 4, "out_channels": 4, "num_layers": 4,
    "sample_size": 16, "patch_size": 2, "num_embeds_ada_norm": 1000, "norm_num_groups": 8,
}  # fmt: skip
Call = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def unet(device: str) -> tuple[torch.nn.Module, Call]:
    """Stable Diffusion's kind of network, and a call of it."""
    torch.manual_seed(0)
    model = diffusers.UNet2DConditionModel(**_SIZES).to(device)
    words = torch.randn(4, 8, 64).to(device)
    return model, lambda sample, time: model(sample, time, words[: len(sample)]).sample


def dit(device: str) -> tuple[torch.nn.Module, Call]:
    """A diffusion transformer, and a call of it."""
    torch.manual_seed(0)
    model = diffusers.DiTTransformer2DModel(**_DIT).to(device)
    labels = torch.arange(4).to(device)
    return model, lambda sample, time: model(sample, time, class_labels=labels[: len(sample)]).sample


def training(build: Callable[[str], tuple[torch.nn.Module, Call]], device: str) -> Callable[[], object]:
    """A step on 4 samples."""
    model, call = build(device)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    scheduler = diffusers.DDPMScheduler()
    clean, noise = torch.randn(4, 4, 16, 16).to(device), torch.randn(4, 4, 16, 16).to(device)
    steps = torch.tensor([1, 300, 600, 900]).to(device)

    def step() -> object:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(call(scheduler.add_noise(clean, noise, steps), steps), noise)
        loss.backward()
        times.mark(device)
        optimizer.step()
        times.mark(device)
        return loss

    return step


def denoising(build: Callable[[str], tuple[torch.nn.Module, Call]], device: str) -> Callable[[], object]:
    """Five steps of DDIM on 2 samples."""
    model, call = build(device)
    model.eval()
    scheduler = diffusers.DDIMScheduler()
    scheduler.set_timesteps(5, device=device)
    noise = torch.randn(2, 4, 16, 16).to(device)

    def steps() -> object:
        sample = noise
        with torch.no_grad():
            for time in scheduler.timesteps:
                sample = scheduler.step(call(sample, time.expand(2)), time, sample).prev_sample
                times.mark(device)
        return sample

    return steps


if __name__ == "__main__":
    times.main(
        {
            "UNet, training": partial(training, unet), "DiT, training": partial(training, dit),
            "UNet, 5 steps of DDIM": partial(denoising, unet), "DiT, 5 steps of DDIM": partial(denoising, dit),
        }
    )  # fmt: skip
