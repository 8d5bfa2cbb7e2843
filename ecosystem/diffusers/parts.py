"""Tiny models of diffusers and what they are called with, fixed here so that runs compare."""

from collections.abc import Callable
from typing import Any

import diffusers
import torch

from ecosystem.both import moved

Arguments = dict[str, Any]
_BLOCKS = {"block_out_channels": (16, 32), "layers_per_block": 1, "norm_num_groups": 8}


def image(channels: int = 4, size: int = 8, rows: int = 2) -> torch.Tensor:
    return torch.randn(rows, channels, size, size)


def words(length: int = 5, width: int = 16) -> torch.Tensor:
    return torch.randn(2, length, width)


def time() -> torch.Tensor:
    return torch.tensor([10, 400])


def _flux_ids(length: int) -> torch.Tensor:
    return torch.stack([torch.zeros(length), torch.arange(length), torch.arange(length)], 1).float()


# Name: class, configuration, what its forward is given.
MODELS: dict[str, tuple[str, Arguments, Callable[[], Arguments]]] = {
    "UNet2D": (
        "UNet2DModel",
        {
            **_BLOCKS,
            "sample_size": 8,
            "in_channels": 3,
            "out_channels": 3,
            "attention_head_dim": 8,
            "down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
            "up_block_types": ("AttnUpBlock2D", "UpBlock2D"),
        },
        lambda: {"sample": image(3), "timestep": time()},
    ),
    "UNet2DCondition": (
        "UNet2DConditionModel",
        {
            **_BLOCKS,
            "sample_size": 8,
            "in_channels": 4,
            "out_channels": 4,
            "cross_attention_dim": 16,
            "attention_head_dim": 4,
            "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
            "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"),
        },
        lambda: {"sample": image(), "timestep": time(), "encoder_hidden_states": words()},
    ),
    "ControlNet": (
        "ControlNetModel",
        {
            **_BLOCKS,
            "in_channels": 4,
            "cross_attention_dim": 16,
            "attention_head_dim": 4,
            "conditioning_embedding_out_channels": (8, 16),
            "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
        },
        lambda: {
            "sample": image(),
            "timestep": time(),
            "encoder_hidden_states": words(),
            "controlnet_cond": image(3, 16),
        },
    ),
    "UNet1D": (
        "UNet1DModel",
        {
            "block_out_channels": (16, 32),
            "in_channels": 8,
            "out_channels": 8,
            "extra_in_channels": 0,
            "use_timestep_embedding": False,
            "time_embedding_type": "fourier",
            "layers_per_block": 1,
            "down_block_types": ("DownBlock1D", "DownBlock1D"),
            "up_block_types": ("UpBlock1D", "UpBlock1D"),
        },
        lambda: {"sample": torch.randn(2, 8, 32), "timestep": time()},
    ),
    "AutoencoderKL": (
        "AutoencoderKL",
        {
            **_BLOCKS,
            "in_channels": 3,
            "out_channels": 3,
            "latent_channels": 4,
            "down_block_types": ("DownEncoderBlock2D",) * 2,
            "up_block_types": ("UpDecoderBlock2D",) * 2,
        },
        lambda: {"sample": image(3, 16)},
    ),
    "AutoencoderTiny": (
        "AutoencoderTiny",
        {
            "in_channels": 3,
            "out_channels": 3,
            "encoder_block_out_channels": (16, 16),
            "decoder_block_out_channels": (16, 16),
            "num_encoder_blocks": (1, 1),
            "num_decoder_blocks": (1, 1),
        },
        lambda: {"sample": image(3, 16)},
    ),
    "VQModel": (
        "VQModel",
        {
            **_BLOCKS,
            "in_channels": 3,
            "out_channels": 3,
            "latent_channels": 3,
            "num_vq_embeddings": 32,
            "down_block_types": ("DownEncoderBlock2D",) * 2,
            "up_block_types": ("UpDecoderBlock2D",) * 2,
        },
        lambda: {"sample": image(3, 16)},
    ),
    "DiT": (
        "DiTTransformer2DModel",
        {
            "num_attention_heads": 2,
            "attention_head_dim": 8,
            "in_channels": 4,
            "out_channels": 8,
            "num_layers": 2,
            "sample_size": 8,
            "patch_size": 2,
            "num_embeds_ada_norm": 1000,
            "norm_num_groups": 8,
        },
        lambda: {"hidden_states": image(), "timestep": time(), "class_labels": torch.tensor([1, 2])},
    ),
    "Transformer2D": (
        "Transformer2DModel",
        {
            "num_attention_heads": 2,
            "attention_head_dim": 8,
            "in_channels": 16,
            "num_layers": 1,
            "norm_num_groups": 8,
            "cross_attention_dim": 16,
        },
        lambda: {"hidden_states": image(16), "encoder_hidden_states": words()},
    ),
    "SD3": (
        "SD3Transformer2DModel",
        {
            "sample_size": 8,
            "patch_size": 2,
            "in_channels": 4,
            "num_layers": 2,
            "attention_head_dim": 8,
            "num_attention_heads": 4,
            "joint_attention_dim": 16,
            "caption_projection_dim": 32,
            "pooled_projection_dim": 16,
            "out_channels": 4,
            "pos_embed_max_size": 8,
        },
        lambda: {
            "hidden_states": image(),
            "timestep": time(),
            "encoder_hidden_states": words(),
            "pooled_projections": torch.randn(2, 16),
        },
    ),
    "Flux": (
        "FluxTransformer2DModel",
        {
            "patch_size": 1,
            "in_channels": 4,
            "num_layers": 1,
            "num_single_layers": 1,
            "attention_head_dim": 16,
            "num_attention_heads": 2,
            "joint_attention_dim": 16,
            "pooled_projection_dim": 16,
            "axes_dims_rope": (4, 4, 8),
        },
        lambda: {
            "hidden_states": torch.randn(2, 16, 4),
            "encoder_hidden_states": words(),
            "pooled_projections": torch.randn(2, 16),
            "timestep": torch.tensor([0.1, 0.7]),
            "img_ids": _flux_ids(16),
            "txt_ids": torch.zeros(5, 3),
        },
    ),
    "PixArt": (
        "PixArtTransformer2DModel",
        {
            "sample_size": 8,
            "num_layers": 2,
            "patch_size": 2,
            "attention_head_dim": 8,
            "num_attention_heads": 2,
            "caption_channels": 16,
            "in_channels": 4,
            "cross_attention_dim": 16,
            "out_channels": 8,
            "attention_bias": True,
            "use_additional_conditions": False,
            "norm_type": "ada_norm_single",
        },
        lambda: {
            "hidden_states": image(),
            "timestep": time(),
            "encoder_hidden_states": words(),
            "added_cond_kwargs": {"aspect_ratio": None, "resolution": None},
        },
    ),
    "Wan": (
        "WanTransformer3DModel",
        {
            "patch_size": (1, 2, 2),
            "num_attention_heads": 2,
            "attention_head_dim": 12,
            "in_channels": 4,
            "out_channels": 4,
            "text_dim": 16,
            "freq_dim": 32,
            "ffn_dim": 32,
            "num_layers": 2,
            "cross_attn_norm": True,
            "qk_norm": "rms_norm_across_heads",
            "rope_max_seq_len": 32,
        },
        lambda: {"hidden_states": torch.randn(2, 4, 2, 8, 8), "timestep": time(), "encoder_hidden_states": words()},
    ),
}
SCHEDULERS = (
    "DDPMScheduler",
    "DDIMScheduler",
    "PNDMScheduler",
    "LMSDiscreteScheduler",
    "EulerDiscreteScheduler",
    "EulerAncestralDiscreteScheduler",
    "HeunDiscreteScheduler",
    "DPMSolverMultistepScheduler",
    "DPMSolverSinglestepScheduler",
    "KDPM2DiscreteScheduler",
    "UniPCMultistepScheduler",
    "DEISMultistepScheduler",
    "SASolverScheduler",
    "LCMScheduler",
    "FlowMatchEulerDiscreteScheduler",
    "FlowMatchHeunDiscreteScheduler",
    "EDMEulerScheduler",
    "EDMDPMSolverMultistepScheduler",
    "TCDScheduler",
    "DDIMInverseScheduler",
    "IPNDMScheduler",
)


def make(name: str) -> Any:
    """The model on the CPU, the same each time, without weights that are zero."""
    kind, configuration, _ = MODELS[name]
    torch.manual_seed(0)
    model = getattr(diffusers, kind)(**configuration).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn(p.shape) * 0.02)
    return model


def given(name: str, device: str) -> Arguments:
    """Its arguments on the device, the same each time."""
    torch.manual_seed(1)
    return moved(MODELS[name][2](), device)  # type: ignore[no-any-return]
