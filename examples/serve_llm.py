"""vLLM with its plugin vllm-gaudi on `hpu`: a tiny model with random weights generates, and the CPU checks its tokens.

python -m examples.serve_llm --check              only say which packages are missing, or have another version
python -m examples.serve_llm                      a Llama, eager
python -m examples.serve_llm --model mixtral      or qwen: a mixture of experts, or a Qwen
python -m examples.serve_llm --compile            by torch.compile; with PT_HPU_LAZY_MODE=1 the mode is lazy
python -m examples.serve_llm --compile --warmup   all buckets first
python -m examples.serve_llm --chunk 128          prompts are taken in 128 tokens at a time
python -m examples.serve_llm --ranks 2            tensor parallel
python -m examples.serve_llm --keep FOLDER        only write the model, for `vllm serve FOLDER`
python -m examples.serve_llm --model opt --hub facebook/opt-125m
    only write it where a model of the hub is kept, for tests that name this one; with HF_HUB_OFFLINE=1 they take it

Nothing is downloaded: weights are random, and a byte-level BPE of 512 tokens is made on the spot. vLLM and the plugin
have to be installed (docs/serving.md). Exits with 1 if a token is not what transformers gives on the CPU.
"""

import argparse
import os
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

PROMPTS = ("the quick brown", "an accelerator", "dog", "the quick brown and an accelerator and dog " * 40)
# Of two logits in bfloat16 that are nearer than this either may be the larger one.
NEAR = 0.1
# What a step should not do; of a graph's operators, those that ran in recipes and those that ran one by one.
COUNTERS = (
    "ops_fallback",
    "recompilations",
    "recipes_compiled",
    "ops_waited",
    "blocking_reads",
    "ops_in_recipes",
    "ops_node_by_node",
)
_ROUNDS = 5
_RECIPES_S = 300.0
_VOCABULARY = 512


_PACKAGES = Path(__file__).parents[1] / "ecosystem" / "requirements" / "vllm.txt"


def missing() -> list[str]:
    """What vLLM and its plugin need and is not installed, or in another version than the tested one."""
    tested = {"torch": "2.13.0", "torchvision": "0.28.0", "openhpu": "", "vllm-gaudi": ""}
    tested |= dict(line.split(" ")[0].split("==") for line in _PACKAGES.read_text().splitlines())
    found = []
    for name, version in tested.items():
        here = next((one.version for one in metadata.distributions(name=name)), "")
        if not here:
            how = f"pip install --no-deps {name}=={version}" if version else "docs/serving.md says how to install it"
            found.append(f"{name} is missing: {how}")
        elif version not in ("", here.partition("+")[0]):
            found.append(f"{name} is {here}; tested with {version}")
    return found


# Of a tiny model: two layers, 256 wide.
SHAPE: dict[str, Any] = {
    "vocab_size": _VOCABULARY,
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 2048,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 2,
    "initializer_range": 0.08,
}


def tiny_model(kind: str, folder: Path, **more: Any) -> None:
    """Write a model of two layers, 256 wide, with its tokenizer: `kind` as in the table; a Llama with `more`."""
    import transformers

    made = {
        "llama": lambda: transformers.LlamaConfig(**SHAPE | more),
        "qwen": lambda: transformers.Qwen2Config(**SHAPE),
        "mistral": lambda: transformers.MistralConfig(**SHAPE),
        "opt": lambda: transformers.OPTConfig(**SHAPE, ffn_dim=512, word_embed_proj_dim=256),
        "mixtral": lambda: transformers.MixtralConfig(num_local_experts=4, num_experts_per_tok=2, **SHAPE),
        "gpt-oss": lambda: transformers.GptOssConfig(
            # Wider than the longest prompt: vLLM's gpt_oss.py cuts what the plugin gives it, (1, tokens, width), there.
            # The window too: of a longer prompt the plugin's decodes see the last blocks only (docs/serving.md).
            **SHAPE | {"hidden_size": 512},
            num_local_experts=4,
            num_experts_per_tok=2,
            head_dim=64,
            sliding_window=512,
        ),
        "deepseek": lambda: transformers.DeepseekV2Config(
            **SHAPE | {"num_key_value_heads": 4},
            q_lora_rank=None,
            kv_lora_rank=128,
            qk_nope_head_dim=64,
            n_group=1,
            qk_rope_head_dim=64,
            v_head_dim=64,
            n_routed_experts=4,
            num_experts_per_tok=2,
            n_shared_experts=1,
            moe_intermediate_size=256,
            first_k_dense_replace=1,
            topk_group=1,
            norm_topk_prob=False,
        ),
    }
    write_tokenizer(folder)
    torch.manual_seed(0)
    transformers.AutoModelForCausalLM.from_config(made[kind]()).to(torch.bfloat16).save_pretrained(folder)


def in_hub(kind: str, name: str) -> Path:
    """Write a tiny model where huggingface_hub keeps the model `name`. SystemExit where there is one."""
    from huggingface_hub.constants import HF_HUB_CACHE

    folder = Path(HF_HUB_CACHE) / f"models--{name.replace('/', '--')}"
    revision = "0" * 40
    if folder.exists():
        raise SystemExit(f"serve_llm: {folder} is there already; delete it, or set HF_HOME to another folder")
    tiny_model(kind, folder / "snapshots" / revision)
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text(revision)
    return folder


def write_tokenizer(folder: Path, more: tuple[str, ...] = ()) -> None:
    """Write a byte-level BPE of 512 tokens; `more` are special tokens after the first three."""
    import transformers
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<s>", "</s>", "<pad>", *more]
    text = [f"{' and '.join(PROMPTS[:3])} jumps over matrices of numbers {i} times" for i in range(200)]
    trainer = trainers.BpeTrainer(
        vocab_size=_VOCABULARY,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(text, trainer)
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token=special[0], eos_token=special[1], pad_token=special[2]
    )
    fast.chat_template = "{% for m in messages %}{{ m['role'] + ': ' + m['content'] + '\n' }}{% endfor %}"
    fast.save_pretrained(folder)


def shortfalls(folder: Path, prompt: list[int], tokens: list[int]) -> list[float]:
    """By how much each token's logit is less than the largest one, after the same tokens on the CPU.

    The smaller one of bfloat16's and float32's: where a router's choice of experts nearly ties, bfloat16's rounding
    decides it, and the CPU's own bfloat16 is 0.6 from float32.
    """
    import transformers

    # "eager": the plugin replaces transformers' other attention by its own in this process.
    load = transformers.AutoModelForCausalLM.from_pretrained
    found = []
    for dtype in (torch.bfloat16, torch.float32):
        model = load(folder, dtype=dtype, attn_implementation="eager").eval()
        with torch.inference_mode():
            logits = model(torch.tensor([prompt + tokens[:-1]])).logits[0, len(prompt) - 1 :].float()
        found.append(logits.max(-1).values - logits.gather(-1, torch.tensor(tokens).unsqueeze(-1)).squeeze(-1))
    return torch.minimum(*found).tolist()


def engine(folder: Path, compiled: bool = False, warmup: bool = False, **options: Any) -> Any:
    """vLLM's engine in this process, where its counters are ours to read."""
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    os.environ["VLLM_SKIP_WARMUP"] = "false" if warmup else "true"
    os.environ.setdefault("OPENHPU_MEMORY_GB", "2")  # else vLLM's cache takes nearly all that the machine has
    from vllm import LLM

    chosen = {"max_model_len": 512, "max_num_seqs": 4, "dtype": "bfloat16", "enforce_eager": not compiled}
    return LLM(model=str(folder), disable_log_stats=False, **{**chosen, **options})


def generate(llm: Any, tokens: int, **options: Any) -> list[tuple[list[int], list[int]]]:
    """Each prompt's tokens, and those that follow, the likeliest each."""
    from vllm import SamplingParams

    choice = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True)
    found = llm.generate(list(PROMPTS), choice, use_tqdm=False, **options)
    return [(list(one.prompt_token_ids), list(one.outputs[0].token_ids)) for one in found]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.serve_llm", description=__doc__)
    parser.add_argument("--model", choices=("llama", "qwen", "mixtral", "mistral", "opt"), default="llama")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--warmup", action="store_true")
    parser.add_argument("--prefix-caching", action="store_true")
    parser.add_argument("--chunk", type=int, metavar="TOKENS")
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--sequences", type=int, default=4, help="requests at a time")
    parser.add_argument("--first", action="store_true", help="count over the first requests, too")
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    parser.add_argument("--hub", metavar="NAME")
    parser.add_argument("--check", action="store_true")
    return parser.parse_args()


def main() -> int:
    options = _options()
    if options.check:
        print("\n".join(found := missing()) or "all is there")
        return 1 if found else 0
    if options.hub:
        print(in_hub(options.model, options.hub))
        return 0
    if options.keep:
        tiny_model(options.model, options.keep)
        return 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tiny_model(options.model, folder)
        start = time.perf_counter()
        more = {
            "enable_prefix_caching": options.prefix_caching,
            "tensor_parallel_size": options.ranks,
            "max_num_seqs": options.sequences,
        }
        if options.chunk:
            more["max_num_batched_tokens"] = options.chunk
        llm = engine(folder, options.compile, options.warmup, **more)
        print(f"started in {time.perf_counter() - start:.1f} s")
        import openhpu
        from openhpu import events

        # Until the device has a recipe for all that requests do: it compiles a graph that it sees again.
        for _ in range(0 if options.first else _ROUNDS):
            generate(llm, options.tokens)
            openhpu.wait_for_recipes(_RECIPES_S)
        before, start = events.counters(), time.perf_counter()
        results = generate(llm, options.tokens)
        seconds = time.perf_counter() - start
        after = events.counters()
        print(f"{len(results) * options.tokens / seconds:.0f} tokens/s")
        for counter in COUNTERS:
            print(f"{counter}: {after[counter] - before[counter]}")
        cached = next(one.value for one in llm.get_metrics() if one.name == "vllm:prefix_cache_hits")
        print(f"tokens found in the prefix cache: {cached}")
        worst = max(max(shortfalls(folder, prompt, tokens)) for prompt, tokens in results)
        print(f"largest shortfall of a token's logit on the CPU: {worst:.3f}")
        return 0 if worst <= NEAR else 1


if __name__ == "__main__":
    sys.exit(main())
