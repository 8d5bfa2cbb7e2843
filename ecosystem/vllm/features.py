"""`python -m ecosystem.vllm.features "fp8 static/eager" ...`: features of vLLM on hpu; the CPU checks the tokens.

Prints a line for each: `cell fp8 static/eager: right: 0.314 (20 s)`. The number is the largest shortfall of a token's
logit on the CPU. Exits with 1 if one is not right. The mode is eager, compile, or with PT_HPU_LAZY_MODE=1 lazy.
"""

import gc
import json
import os
import re
import shutil
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch

from commands import child, free_port
from ecosystem.vllm import made
from examples.serve_llm import NEAR, PROMPTS, engine, generate, shortfalls

_TOKENS = 16


class Feature(NamedTuple):
    """A row of the table."""

    kind: str = "llama"
    form: str = ""  # of weights, one of made.FORMATS
    options: dict[str, Any] = {}  # noqa: RUF012  # of the engine
    environment: dict[str, str] = {}  # noqa: RUF012
    near: float = NEAR
    draft: str = ""  # the kind of the model that drafts
    calibration: dict[str, Any] = {}  # noqa: RUF012  # what Neural Compressor's QUANT_CONFIG has
    saved: bool = False  # by Neural Compressor, for vLLM
    spoil: Callable[[Path], None] | None = None  # what is done to the model's files
    counter: str = ""  # of vLLM's, that must not stay 0
    refused: str = ""  # a pattern of the error that there must be
    warmup: bool = False  # run all buckets first
    replicas: int = 1  # data parallel: processes with an engine each
    check: Callable[..., float] | None = None  # of the engine, the model's folder, and the one of what it stands for


def tokens(llm: Any, folder: Path, meant: Path) -> float:
    """Generate twice; the largest shortfall of a token's logit."""
    generate(llm, _TOKENS)
    if llm.llm_engine.vllm_config.kv_transfer_config:
        assert llm.reset_prefix_cache()  # what the device forgets comes back from the host
    return worst(meant, generate(llm, _TOKENS))


def worst(meant: Path, results: list[tuple[list[int], list[int]]]) -> float:
    """The largest shortfall of all requests."""
    return max(max(shortfalls(meant, *result)) for result in results)


def adapters(llm: Any, folder: Path, meant: Path) -> float:
    """In one batch: no adapter, the first, the second, the first; each as if it were merged."""
    from vllm.lora.request import LoRARequest

    places = [folder.with_name(f"adapter{number}") for number in (1, 2)]
    merged = [made.adapter(place, folder, number) for number, place in enumerate(places, 1)]
    first, second = (LoRARequest(place.name, number, str(place)) for number, place in enumerate(places, 1))
    for _ in range(2):
        results = generate(llm, _TOKENS, lora_request=[None, first, second, first])
    assert worst(meant, results[1:]) > 1, "an adapter makes no difference"
    return max(worst(like, [one]) for like, one in zip([meant, merged[0], merged[1], merged[0]], results, strict=True))


def structured(llm: Any, folder: Path, meant: Path) -> float:
    """Answers of a given form."""
    from vllm import SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    schema = {"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"], "additionalProperties": False}
    forms: dict[str, dict[str, Any]] = {
        r"dog|brown": {"choice": ["dog", "brown"]},
        r"[a-c]{3}x": {"regex": r"[a-c]{3}x"},
        r'\s*\{\s*"n"\s*:\s*[12]\s*\}\s*': {"json": schema},
        r"(ab)+c": {"grammar": 'root ::= "ab" root | "abc"'},
    }
    for pattern, form in forms.items():
        choice = SamplingParams(temperature=0, max_tokens=40, structured_outputs=StructuredOutputsParams(**form))
        (one,) = llm.generate([PROMPTS[0]], choice, use_tqdm=False)
        text = one.outputs[0].text
        done = one.outputs[0].finish_reason == "stop"
        assert re.fullmatch(pattern, text) or (not done and text.startswith("ab")), (form, text)
    return 0.0


def embeddings(llm: Any, folder: Path, meant: Path) -> float:
    """One less the cosine of the angle to the CPU's."""
    import transformers

    model = transformers.AutoModel.from_pretrained(folder, dtype=torch.bfloat16, attn_implementation="eager").eval()
    found = []
    for one in llm.embed(list(PROMPTS), use_tqdm=False):
        with torch.inference_mode():
            (last,) = model(torch.tensor([one.prompt_token_ids])).last_hidden_state[:, -1].float()
        found.append(1 - torch.cosine_similarity(last, torch.tensor(one.outputs.embedding), dim=0).item())
    return max(found)


def images(llm: Any, folder: Path, meant: Path) -> float:
    """The largest shortfall of a token's logit after an image."""
    import PIL.Image
    import transformers
    from vllm import SamplingParams

    pixels = torch.randint(256, (112, 140, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    image = PIL.Image.fromarray(pixels.numpy())
    prompt = f"<|vision_start|><|image_pad|><|vision_end|>{PROMPTS[0]}"
    choice = SamplingParams(temperature=0, max_tokens=_TOKENS, ignore_eos=True)
    (one,) = llm.generate([{"prompt": prompt, "multi_modal_data": {"image": image}}], choice, use_tqdm=False)
    answer = list(one.outputs[0].token_ids)
    seen = transformers.AutoImageProcessor.from_pretrained(folder)(images=[image], return_tensors="pt")
    model = transformers.Qwen2_5_VLForConditionalGeneration.from_pretrained(folder, attn_implementation="eager").eval()
    ids = torch.tensor([list(one.prompt_token_ids) + answer[:-1]])
    kinds = (ids == model.config.image_token_id).int()
    with torch.inference_mode():
        logits = model(ids, mm_token_type_ids=kinds, **seen).logits[0, -_TOKENS:].float()
    return (logits.max(-1).values - logits.gather(-1, torch.tensor(answer)[:, None])[:, 0]).max().item()


FP8 = 1.0  # activations in fp8, of which the CPU's have none; a token that is wrong is 4 away
_LORA: dict[str, Any] = {"enable_lora": True, "max_loras": 3, "max_lora_rank": 8}
_HOST = {
    "kv_connector": "OffloadingConnector",
    "kv_role": "kv_both",
    "kv_connector_extra_config": {"cpu_bytes_to_use": 64 << 20, "block_size": 128},
}
_SCALED = "compressed-tensors fp8 channel"
_EXPERTS = ("fp8 dynamic", "fp8 blocks", _SCALED, "compressed-tensors int4")
_CACHED = {"enable_prefix_caching": True}


def _drafting(method: str, count: int = 1, draft: str = "", **more: Any) -> Feature:
    options = {"speculative_config": {"method": method, "num_speculative_tokens": count, **more}}
    return Feature(options=options, draft=draft, counter="spec_decode_num_draft_tokens")


def _calibrated(method: str, *left: str, **more: Any) -> Feature:
    calibration = {"scale_method": method, "blocklist": {"types": [], "names": left}}
    return Feature(near=1.5, options={"quantization": "inc", **more}, calibration=calibration)  # of the head, too


_TENSORS = {"tensor_parallel_size": 2}
_EXPERTS_APART = {"enable_expert_parallel": True}

FEATURES: dict[str, Feature] = {
    "bf16": Feature(),
    "warm-up": Feature(options={"max_num_seqs": 2, "max_num_batched_tokens": 128}, warmup=True),
    "tensor parallel": Feature(options=_TENSORS),
    "experts, tensor parallel": Feature("mixtral", options=_TENSORS),
    "experts, data parallel": Feature("mixtral", replicas=2),
    "experts, expert parallel": Feature("mixtral", options=_TENSORS | _EXPERTS_APART),
    "experts, data and expert parallel": Feature("mixtral", options=_EXPERTS_APART, replicas=2),
    **{name: Feature(form=name, near=FP8 if "fp8" in name else NEAR) for name in made.FORMATS if " " in name},
    **{name: Feature(form=name, options={"quantization": f"{name}_hpu"}) for name in ("awq", "gptq")},
    "fp8 made by vLLM": Feature(near=FP8, options={"quantization": "fp8"}),
    "fp8 cache": Feature(near=FP8, options={"kv_cache_dtype": "fp8_inc"}),
    "experts, bf16": Feature("mixtral"),
    **{f"experts, {name}": Feature("mixtral", name, near=FP8) for name in _EXPERTS},
    "gpt-oss, MXFP4": Feature("gpt-oss"),
    "gpt-oss, MXFP4 native": Feature("gpt-oss", environment={"HPU_MXFP4_NATIVE": "1"}),
    "MLA": Feature("deepseek"),
    "LoRA": Feature(options=_LORA, check=adapters),
    "n-gram drafts of 1 token": _drafting("ngram", prompt_lookup_max=3, prompt_lookup_min=1),
    "n-gram drafts of 3 tokens": _drafting("ngram", 3, prompt_lookup_max=3, prompt_lookup_min=1),
    "drafts of EAGLE": _drafting("eagle", draft="eagle"),
    "drafts of a model": _drafting("draft_model", draft="llama"),
    "refused: a draft with another vocabulary": _drafting("draft_model", draft="small")._replace(refused="vocab"),
    "drafts of EAGLE, with another vocabulary": _drafting("eagle", draft="small eagle"),
    "Neural Compressor, fp8": _calibrated("maxabs_hw", "k_cache", "v_cache"),
    "Neural Compressor, fp8 and cache": _calibrated("maxabs_hw", kv_cache_dtype="fp8_inc"),
    # The plugin's default, scales that a graph takes as inputs, is for one scale a tensor.
    "Neural Compressor, fp8 by channel": _calibrated(
        "act_maxabs_hw_weights_pcs_maxabs_pow2", "k_cache", "v_cache"
    )._replace(environment={"RUNTIME_SCALE_PATCHING": "0"}),
    "Neural Compressor, saved": Feature(near=1.5, saved=True),
    # vLLM leaves it to the model to normalise images, and the plugin's model does not.
    "images": Feature(
        "vision", options={"limit_mm_per_prompt": {"image": 1}, "mm_device_do_normalize": False}, check=images
    ),
    "chunked prefill": Feature(options={"max_num_batched_tokens": 128}),
    "prefix caching": Feature(options=_CACHED, counter="prefix_cache_hits"),
    "cache on the host": Feature(options=_CACHED | {"kv_transfer_config": _HOST}, counter="external_prefix_cache_hits"),
    "structured output": Feature(check=structured),
    "refused: weights of another format": Feature(
        options={"quantization": "awq_hpu"},
        refused="weight",
        spoil=lambda folder: made.configure(folder, quantization_config=made.FORMATS["awq"][0]),
    ),
    "refused: a scale of another shape": Feature(form=_SCALED, spoil=made.halve_scales, refused="AssertionError"),
    "refused: an adapter above the rank": Feature(options=_LORA | {"max_lora_rank": 1}, check=adapters, refused="rank"),
    "embeddings": Feature(options={"runner": "pooling", "convert": "embed"}, near=0.01, check=embeddings),
}


def run(name: str, compiled: bool) -> float:
    """The largest shortfall of a token's logit. Raises what vLLM raises."""
    from vllm.distributed.kv_transfer import ensure_kv_transfer_shutdown
    from vllm.distributed.parallel_state import destroy_distributed_environment, destroy_model_parallel
    from vllm_gaudi.extension.runtime import clear_config

    feature = FEATURES[name]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "model"
        meant = made.model(feature.kind, feature.form, folder)
        if feature.spoil:
            feature.spoil(folder)
        if feature.saved:
            folder = Path(shutil.copytree(folder, folder.with_name("saved")))
            apart(save, folder)
        given: dict[str, Any] = {"num_gpu_blocks_override": 64, **feature.options}
        if feature.draft:
            made.draft(feature.draft, folder, folder.with_name("draft"))
            given["speculative_config"] = given["speculative_config"] | {"model": str(folder.with_name("draft"))}
        if feature.calibration:
            os.environ["QUANT_CONFIG"] = str(calibrated(folder, feature.calibration))
        llm = engine(folder, compiled, feature.warmup, **given)
        try:
            found = (feature.check or tokens)(llm, folder, meant)
            counted = sum(one.value for one in llm.get_metrics() if one.name == f"vllm:{feature.counter}")
            assert counted or not feature.counter, f"{feature.counter} is 0"
            return found
        finally:
            del llm
            ensure_kv_transfer_shutdown()
            destroy_model_parallel()
            destroy_distributed_environment()
            gc.collect()
            torch._dynamo.reset()
            clear_config()


def replicated(cell: str, count: int) -> float:
    """The largest shortfall of all replicas, each a process that runs the cell."""
    common = {"VLLM_DP_SIZE": str(count), "VLLM_DP_MASTER_IP": "127.0.0.1", "VLLM_DP_MASTER_PORT": str(free_port())}
    words = [sys.executable, "-m", "ecosystem.vllm.features", cell]
    asked = [
        {"argv": words, "seconds": 800.0, "env": os.environ | common | {"VLLM_DP_RANK": str(rank)}, "farewell": 10.0}
        for rank in range(count)
    ]
    ended = [replica.checked("a replica") for replica in child.run_at_once(asked)]
    return max(float(re.findall(r"^cell .+: right: ([\d.]+)", one.output, re.MULTILINE)[-1]) for one in ended)


def calibrated(folder: Path, options: dict[str, Any]) -> Path:
    """Measure a model in a process of its own; the file that QUANT_CONFIG names to quantise by that."""
    common = {"observer": "maxabs", "dump_stats_path": str(folder.with_name("measured") / "inc"), **options}
    for mode in ("measure", "quantize"):
        folder.with_name(f"{mode}.json").write_text(json.dumps({"mode": mode.upper(), **common}))
    apart(measure, folder, QUANT_CONFIG=f"{folder.parent}/measure.json")
    return folder.with_name("quantize.json")


def apart(function: Callable[[Path], None], folder: Path, **environment: str) -> None:
    """Call a function of this module in a process of its own. Raises ChildError if it fails."""
    code = f"import pathlib\nfrom ecosystem.vllm import features\nfeatures.{function.__name__}(pathlib.{folder!r})"
    ended = child.run([sys.executable, "-c", code], seconds=400.0, env=os.environ | environment, farewell=10.0)
    ended.checked(function.__name__)


def measure(folder: Path) -> None:
    """Run the model whose inputs Neural Compressor measures."""
    llm = engine(folder, quantization="inc", num_gpu_blocks_override=64)
    generate(llm, _TOKENS)
    llm.llm_engine.model_executor.driver_worker.worker.model_runner.shutdown_inc()


def save(folder: Path) -> None:
    """Measure and quantise a model of transformers by Neural Compressor, and save it in its place as vLLM loads it."""
    import transformers
    from neural_compressor.torch import quantization

    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    config = quantization.FP8Config(
        fp8_config="E4M3",
        scale_format="const",
        allowlist={"types": ["Linear"]},
        blocklist={"names": ["lm_head"]},
        dump_stats_path=str(folder.with_name("measured") / "inc"),
    )
    model = quantization.prepare(model, config)
    with torch.no_grad():
        for prompt in PROMPTS:
            model(tokenizer(prompt, return_tensors="pt").input_ids.to("hpu"))
    quantization.save(quantization.convert(model), str(folder), format="vllm")


def main() -> int:
    wrong = 0
    for cell in sys.argv[1:]:
        name, _, mode = cell.rpartition("/")
        feature = FEATURES[name]
        start = time.monotonic()
        os.environ.update(feature.environment)
        try:
            alone = feature.replicas == 1 or "VLLM_DP_RANK" in os.environ
            found = run(name, mode != "eager") if alone else replicated(cell, feature.replicas)
            said = f"{'wrong' if found > feature.near or feature.refused else 'right'}: {found:.3f}"
        except Exception as error:
            traceback.print_exc()
            text = " ".join(f"{type(error).__name__}: {error}".split())
            said = f"{'right' if feature.refused and re.search(feature.refused, text) else 'raised'}: {text[:400]}"
        wrong += not said.startswith("right")
        print(f"cell {cell}: {said} ({time.monotonic() - start:.0f} s)", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
