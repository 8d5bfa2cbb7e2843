"""Models made on the spot: of each kind, with weights in each format; beside each, the weights that it stands for."""

import json
import re
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from examples.serve_llm import SHAPE, tiny_model, write_tokenizer

Tensors = dict[str, torch.Tensor]
_GROUP = 128  # of int4: elements with one scale
_LAYERS = re.compile(r"(proj|proj_with_mqa|\.w[123])\.weight$")  # of linear layers, without the head and routers
_EXPERTS = re.compile("(gate_up|down)_proj$")  # of gpt-oss
_FP4 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def _eight(
    weight: torch.Tensor, kind: str, name: str = "weight_scale", inputs: bool = False
) -> tuple[Tensors, torch.Tensor]:
    """In fp8 with a scale for the "tensor", each "channel" or each "block", or in "int8" by channel."""
    rows, columns = weight.shape
    down, right = {"tensor": (1, 1), "block": (rows // 128, columns // 128)}.get(kind, (rows, 1))
    blocks = weight.reshape(down, rows // down, right, columns // right)
    # Of "tensor" one for all layers: vLLM gives the layers that it joins the largest one of their scales.
    most = torch.full((1, 1, 1, 1), 0.5) if kind == "tensor" else blocks.abs().amax((1, 3), keepdim=True)
    scale = most / (127 if kind == "int8" else 448)
    stored = (blocks / scale).round().to(torch.int8) if kind == "int8" else (blocks / scale).to(torch.float8_e4m3fn)
    tensors = {"weight": stored.reshape(weight.shape), name: scale.reshape(() if kind == "tensor" else (down, right))}
    if inputs:
        tensors["input_scale"] = torch.tensor(0.05)  # 448 times this is the largest one
    return tensors, (stored.float() * scale).reshape(weight.shape)


def _packed(values: torch.Tensor, order: tuple[int, ...] = tuple(range(8))) -> torch.Tensor:
    """Eight numbers of four bits in an int32, along the last dimension."""
    eight = values.to(torch.int64).reshape(*values.shape[:-1], -1, 8)[..., order]
    return (eight << (4 * torch.arange(8))).sum(-1).to(torch.int32)


def _four(weight: torch.Tensor, kind: str) -> tuple[Tensors, torch.Tensor]:
    """In four bits with a scale for each group of a row; but for "compressed" with a zero, too."""
    groups = weight.reshape(len(weight), -1, _GROUP)
    low, high = groups.amin(-1), groups.amax(-1)
    if kind == "compressed":
        low = -groups.abs().amax(-1)
        high = groups.abs().amax(-1)
    half = ((high - low) / 15).to(torch.bfloat16)
    scale = half.float()
    zero = torch.full_like(scale, 8) if kind == "compressed" else (-low / scale).round().clamp(0, 15)
    number = ((groups / scale[..., None]).round() + zero[..., None]).clamp(0, 15)
    meant = ((number - zero[..., None]) * scale[..., None]).reshape_as(weight)
    stored = number.reshape_as(weight)
    order = (0, 2, 4, 6, 1, 3, 5, 7)
    shape = torch.tensor(weight.shape)
    index = (torch.arange(weight.shape[1]) // _GROUP).to(torch.int32)
    tensors: dict[str, Callable[[], Tensors]] = {
        "compressed": lambda: {"weight_packed": _packed(stored), "weight_scale": half, "weight_shape": shape},
        "gptq": lambda: {
            "qweight": _packed(stored).t(),
            "qzeros": _packed((zero.t() - 1) % 16),
            "scales": half.t(),
            "g_idx": index,
        },
        "awq": lambda: {"qweight": _packed(stored.t(), order), "qzeros": _packed(zero.t(), order), "scales": half.t()},
    }
    return tensors[kind](), meant


def _mxfp4(weight: torch.Tensor) -> tuple[Tensors, torch.Tensor]:
    """In blocks of 32 numbers of four bits, with their exponents; of (experts, in, out)."""
    groups = weight.transpose(1, 2).reshape(*weight.shape[:1], weight.shape[2], -1, 32)
    exponent = (groups.abs().amax(-1) / 6).log2().ceil()
    scaled = groups / exponent[..., None].exp2()
    nearest = (scaled.abs()[..., None] - _FP4).abs().argmin(-1)
    number = nearest + 8 * (scaled < 0)
    meant = _FP4[nearest] * scaled.sign() * exponent[..., None].exp2()
    blocks = (number[..., 0::2] | number[..., 1::2] << 4).to(torch.uint8)
    return {"_blocks": blocks, "_scales": (exponent + 127).to(torch.uint8)}, meant.flatten(2).transpose(1, 2)


def _compressed(form: str, weights: dict[str, Any], inputs: dict[str, Any] | None = None) -> dict[str, Any]:
    common = {"symmetric": True, "observer": "minmax", "dynamic": False}
    group = {"targets": ["Linear"], "weights": common | weights, "input_activations": inputs and common | inputs}
    return {
        "quant_method": "compressed-tensors",
        "format": form,
        "quantization_status": "compressed",
        "ignore": ["lm_head", "re:.*gate$"],
        "config_groups": {"group_0": group},
    }


_E4M3, _INT8 = {"num_bits": 8, "type": "float"}, {"num_bits": 8, "type": "int"}
_TENSOR = {"strategy": "tensor"}
_CHANNEL = {"strategy": "channel"}
_TOKEN = {"strategy": "token", "dynamic": True}
_INT4 = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": _GROUP}
_DYNAMIC = {"quant_method": "fp8", "activation_scheme": "dynamic"}
# What config.json says of a format; how a layer's weight of (out, in) is stored, and what that stands for.
FORMATS: dict[str, tuple[dict[str, Any], Callable[[torch.Tensor], tuple[Tensors, torch.Tensor]]]] = {
    "fp8 dynamic": (_DYNAMIC, partial(_eight, kind="tensor")),
    "fp8 static": (_DYNAMIC | {"activation_scheme": "static"}, partial(_eight, kind="tensor", inputs=True)),
    "fp8 blocks": (
        _DYNAMIC | {"weight_block_size": [128, 128]},
        partial(_eight, kind="block", name="weight_scale_inv"),
    ),
    "compressed-tensors fp8 channel": (
        _compressed("float-quantized", _E4M3 | _CHANNEL, _E4M3 | _TOKEN),
        partial(_eight, kind="channel"),
    ),
    "compressed-tensors fp8 static": (
        _compressed("float-quantized", _E4M3 | _TENSOR, _E4M3 | _TENSOR),
        partial(_eight, kind="tensor", inputs=True),
    ),
    "compressed-tensors int8": (
        _compressed("int-quantized", _INT8 | _CHANNEL, _INT8 | _TOKEN),
        partial(_eight, kind="int8"),
    ),
    "compressed-tensors int4": (_compressed("pack-quantized", _INT4), partial(_four, kind="compressed")),
    "modelopt fp8": (
        {"quant_method": "modelopt", "quant_algo": "FP8", "ignore": ["lm_head"]},
        partial(_eight, kind="tensor", inputs=True),
    ),
    "awq": (
        {"quant_method": "awq", "bits": 4, "group_size": _GROUP, "zero_point": True, "version": "gemm"},
        partial(_four, kind="awq"),
    ),
    "gptq": (
        {"quant_method": "gptq", "bits": 4, "group_size": _GROUP, "desc_act": False, "sym": False},
        partial(_four, kind="gptq"),
    ),
    "mxfp4": ({"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}, _mxfp4),
}


def quantise(folder: Path, name: str, layers: re.Pattern[str] = _LAYERS) -> Path:
    """Store the layers' weights in the format `name`; the folder of the same model with what they stand for."""
    (config, split), meant = FORMATS[name], folder.with_name(f"{folder.name}-meant")
    shutil.copytree(folder, meant)
    weights = load_file(folder / "model.safetensors")
    stored, dense = Tensors(), Tensors()
    for key, weight in weights.items():
        if layers.search(key):
            tensors, back = split(weight.float())
            stored |= {f"{key.removesuffix('weight')}{part}": one.contiguous() for part, one in tensors.items()}
            dense[key] = back.to(torch.bfloat16).contiguous()
        else:
            stored[key] = dense[key] = weight
    _save(stored, folder)
    _save(dense, meant)
    configure(folder, quantization_config=config)
    return meant


def _save(tensors: Tensors, folder: Path) -> None:
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def halve_scales(folder: Path) -> None:
    """Give the layers half of their scales."""
    weights = load_file(folder / "model.safetensors")
    halves = {key: one[::2].contiguous() for key, one in weights.items() if key.endswith("_scale")}
    _save(weights | halves, folder)


def configure(folder: Path, **values: Any) -> None:
    """Write values into a model's config.json."""
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def gpt_oss(folder: Path) -> Path:
    """A gpt-oss with MXFP4 experts: sinks, a sliding window, biases; the folder of what it stands for."""
    tiny_model("gpt-oss", folder)
    weights = load_file(folder / "model.safetensors")
    for key in weights:
        if "sinks" in key or "bias" in key:
            weights[key].normal_(std=0.5)
    _save(weights, folder)
    return quantise(folder, "mxfp4", _EXPERTS)


def adapter(folder: Path, base: Path, seed: int, rank: int = 8) -> Path:
    """Write a LoRA adapter of all layers; the folder of the base with the adapter added to its weights."""
    merged = folder.with_name(f"{folder.name}-meant")
    shutil.copytree(base, merged)
    folder.mkdir()
    generator = torch.Generator().manual_seed(seed)
    weights = load_file(base / "model.safetensors")
    parts: Tensors = {}
    for key in [key for key in weights if _LAYERS.search(key)]:
        rows, columns = weights[key].shape
        sizes = (rank, columns), (rows, rank)
        down, up = ((torch.randn(size, generator=generator) * 0.08).to(torch.bfloat16) for size in sizes)
        module = f"base_model.model.{key.removesuffix('.weight')}"
        parts |= {f"{module}.lora_A.weight": down, f"{module}.lora_B.weight": up}
        weights[key] = (weights[key].float() + 2 * up.float() @ down.float()).to(torch.bfloat16)
    _save(weights, merged)
    save_file(parts, folder / "adapter_model.safetensors")
    config = {"peft_type": "LORA", "r": rank, "lora_alpha": 2 * rank, "bias": "none", "task_type": "CAUSAL_LM"}
    config["target_modules"] = sorted({key.split(".")[-2] for key in weights if _LAYERS.search(key)})
    (folder / "adapter_config.json").write_text(json.dumps(config))
    return merged


def draft(kind: str, base: Path, folder: Path) -> None:
    """Write a model that drafts for `base`: of "eagle", a layer and one that joins tokens and states; or itself.

    A "small" one has half of the vocabulary.
    """
    shutil.copytree(base, folder)
    weights = load_file(base / "model.safetensors")
    if kind.startswith("small"):
        half = {key: one[: len(one) // 2].contiguous() for key, one in weights.items() if re.search("embed|head", key)}
        _save(weights | half, folder)
        configure(folder, vocab_size=SHAPE["vocab_size"] // 2)
    if not kind.endswith("eagle"):
        return
    kept = {key[6:]: one for key, one in weights.items() if re.search(r"^model.layers.0.*(proj|post.*)\.weight", key)}
    joins = torch.randn(SHAPE["hidden_size"], 2 * SHAPE["hidden_size"]) * 0.05
    _save(kept | {"fc.weight": joins.to(torch.bfloat16)}, folder)
    configure(folder, architectures=["EagleLlamaForCausalLM"], num_hidden_layers=1)


def processor(folder: Path) -> dict[str, int]:
    """A tokenizer and Qwen2.5-VL's processor of images. The marks of images and videos, by their names in a config."""
    import transformers

    marks = ("<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>")
    write_tokenizer(folder, marks)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    size = {"shortest_edge": 112 * 112, "longest_edge": 224 * 224}  # no smaller: the plugin says so
    parts = transformers.Qwen2VLImageProcessor(size=size), tokenizer, transformers.Qwen2VLVideoProcessor()
    transformers.Qwen2_5_VLProcessor(*parts, chat_template=tokenizer.chat_template).save_pretrained(folder)
    names = ("vision_start_token_id", "vision_end_token_id", "image_token_id", "video_token_id")
    return dict(zip(names, tokenizer.convert_tokens_to_ids(list(marks)), strict=True))


def vision(folder: Path) -> None:
    """A Qwen2.5-VL with its processor of images."""
    import transformers

    marks = processor(folder)
    text = SHAPE | {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [8, 12, 12]}}
    seen: dict[str, Any] = {"depth": 2, "hidden_size": 64, "intermediate_size": 128, "num_heads": 2}
    seen |= {"out_hidden_size": 256, "fullatt_block_indexes": [1]}
    config = transformers.Qwen2_5_VLConfig(
        text_config=text,
        vision_config=seen,
        **marks,
        tie_word_embeddings=False,
    )
    torch.manual_seed(0)
    model = transformers.Qwen2_5_VLForConditionalGeneration(config)
    model.lm_head.weight.data[[marks["image_token_id"], marks["video_token_id"]]] = 0  # an answer has no images
    model.to(torch.bfloat16).save_pretrained(folder)


def model(kind: str, form: str, folder: Path) -> Path:
    """Write a model; the folder of what its weights stand for: itself, unless they are quantised."""
    if kind == "gpt-oss":
        return gpt_oss(folder)
    if kind == "vision":
        vision(folder)
    else:
        tiny_model(kind, folder)
    if form and kind == "mixtral":  # all of its experts: which ones a token gets may depend on the rounding of fp8
        configure(folder, num_experts_per_tok=4)
    return quantise(folder, form) if form else folder
