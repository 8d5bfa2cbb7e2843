"""Pipelines from noise to image, a training and LoRA, on hpu and on the CPU."""

import diffusers
import numpy as np
import pytest
import torch
import transformers
from diffusers.training_utils import EMAModel
from peft import LoraConfig
from torch.testing import assert_close

from ecosystem.diffusers.parts import make
from ecosystem.words import tokenizer

# Images of numbers from 0 to 1.
CLOSE = {"rtol": 0, "atol": 5e-3}


def encoder(kind="CLIPTextModel", **more):
    torch.manual_seed(0)
    config = transformers.CLIPTextConfig(
        vocab_size=99,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=20,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
        **more,
    )
    return getattr(transformers, kind)(config).eval()


def stable_diffusion(kind="StableDiffusionPipeline", **more):
    parts = {
        "vae": make("AutoencoderKL"),
        "unet": make("UNet2DCondition"),
        "text_encoder": encoder(),
        "tokenizer": tokenizer(20),
        "scheduler": diffusers.DDIMScheduler(clip_sample=False),
        "safety_checker": None,
        "feature_extractor": None,
        "requires_safety_checker": False,
        **more,
    }
    return getattr(diffusers, kind)(**parts)


PIPELINES = {
    "ddpm": (lambda: diffusers.DDPMPipeline(make("UNet2D"), diffusers.DDPMScheduler()), {"num_inference_steps": 4}),
    "ddim": (lambda: diffusers.DDIMPipeline(make("UNet2D"), diffusers.DDIMScheduler()), {"num_inference_steps": 4}),
    "dit": (
        lambda: diffusers.DiTPipeline(make("DiT"), make("AutoencoderKL"), diffusers.DDIMScheduler()),
        {"num_inference_steps": 3, "class_labels": [1, 2]},
    ),
    "stable diffusion": (
        stable_diffusion,
        {"prompt": "a cat", "height": 16, "width": 16, "num_inference_steps": 4, "guidance_scale": 5.0},
    ),
    "stable diffusion, no guidance": (
        stable_diffusion,
        {"prompt": ["a cat", "dog"], "height": 16, "width": 16, "num_inference_steps": 3, "guidance_scale": 1.0},
    ),
    "image to image": (
        lambda: stable_diffusion("StableDiffusionImg2ImgPipeline"),
        {"prompt": "a cat", "image": torch.full((1, 3, 16, 16), 0.3), "num_inference_steps": 6, "strength": 0.7},
    ),
    "control": (
        lambda: stable_diffusion("StableDiffusionControlNetPipeline", controlnet=make("ControlNet")),
        {
            "prompt": "a cat",
            "image": torch.full((1, 3, 16, 16), 0.3),
            "num_inference_steps": 3,
            "height": 16,
            "width": 16,
        },
    ),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_pipeline(name):
    factory, options = PIPELINES[name]
    images = {}
    for device in ("cpu", "hpu"):
        pipeline = factory().to(device)
        pipeline.set_progress_bar_config(disable=True)
        assert pipeline.device.type == device
        images[device] = pipeline(**options, generator=torch.Generator().manual_seed(0), output_type="np").images
    assert images["cpu"].std() > 0.01
    np.testing.assert_allclose(images["hpu"], images["cpu"], **CLOSE)


def painted(pipeline, seed=0, device="cpu"):
    pipeline.set_progress_bar_config(disable=True)
    options = {"prompt": "a cat", "height": 16, "width": 16, "num_inference_steps": 2, "output_type": "np"}
    return pipeline(**options, generator=torch.Generator(device).manual_seed(seed)).images


def test_offload_and_slices():
    expected = painted(stable_diffusion().to("hpu"))
    for enable in ("enable_model_cpu_offload", "enable_sequential_cpu_offload", "enable_attention_slicing"):
        pipeline = stable_diffusion()
        if "offload" in enable:
            getattr(pipeline, enable)(device="hpu")
        else:
            getattr(pipeline.to("hpu"), enable)()
        np.testing.assert_allclose(painted(pipeline), expected, **CLOSE)


def trained(device, steps=4, lora=False):
    model = make("UNet2DCondition").to(device).train()
    if lora:
        model.requires_grad_(False)
        torch.manual_seed(4)
        model.add_adapter(LoraConfig(r=4, target_modules=["to_q", "to_v"], init_lora_weights=True))
        torch.manual_seed(5)
        with torch.no_grad():
            for name, p in model.named_parameters():
                if "lora" in name:
                    p.copy_(torch.randn(p.shape) * 0.1)
    averaged = EMAModel(model.parameters(), decay=0.5)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    scheduler = diffusers.DDPMScheduler()
    torch.manual_seed(6)
    losses = []
    for _ in range(steps):
        images, noise, times = torch.randn(2, 4, 8, 8), torch.randn(2, 4, 8, 8), torch.randint(1000, (2,))
        words = torch.randn(2, 5, 16)
        images, noise, times, words = (tensor.to(device) for tensor in (images, noise, times, words))
        guess = model(scheduler.add_noise(images, noise, times), times, words).sample
        loss = torch.nn.functional.mse_loss(guess, noise)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        averaged.step(model.parameters())
        losses.append(loss.detach().cpu())
    return torch.stack(losses), [p.cpu() for p in averaged.shadow_params]


@pytest.mark.parametrize("lora", [False, True], ids=["all weights", "lora"])
def test_training(lora):
    losses, averages = trained("hpu", lora=lora)
    cpu_losses, cpu_averages = trained("cpu", lora=lora)
    assert_close(losses, cpu_losses, rtol=1e-3, atol=1e-4)
    assert_close(averages, cpu_averages, rtol=1e-2, atol=1e-3)
