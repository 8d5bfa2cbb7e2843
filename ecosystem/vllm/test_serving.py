"""A tiny model of each kind behind vLLM: tokens as transformers' on the CPU, and nothing that a step should not do."""

import os
import re
import sys

import pytest

from commands import ROOT, child

LAZY = os.environ.get("PT_HPU_LAZY_MODE") == "1"
RECIPES = os.environ.get("OPENHPU_COMPILE") != "off"
# Graphs: by torch.compile, or HPU graphs in lazy mode.
OPTIONS = ["", "--prefix-caching", "--warmup", "--chunk 128", "--compile"]
# A Llama takes all of them; of the others each kind of run is enough.
CELLS = [("llama", option) for option in OPTIONS]
CELLS += [(model, option) for model in ("qwen", "mixtral") for option in ("", "--compile")]
NEVER = ("ops_fallback", "recompilations", "recipes_compiled", "ops_waited", "blocking_reads")

# One prompt bucket and one decode bucket: that of a prompt of 200 tokens is not among them.
EXPECTING = """
import os, sys
from pathlib import Path
import openhpu
from examples.serve_llm import engine, tiny_model
folder = Path(sys.argv[1]) / "model"
tiny_model("llama", folder)
buckets = Path(sys.argv[1]) / "buckets.txt"
buckets.write_text("(1, 128, 0)\\n(1, 1, 2)\\n")
os.environ["VLLM_BUCKETING_FROM_FILE"] = str(buckets)
llm = engine(folder, compiled=True, warmup=True, num_gpu_blocks_override=32, max_num_seqs=1)
from vllm import SamplingParams

def ask(count):
    choice = SamplingParams(temperature=0, max_tokens=4, ignore_eos=True, detokenize=False)
    llm.generate([{"prompt_token_ids": [7] * count}], choice, use_tqdm=False)

for count in (100, 99, 200):
    print("tokens:", count, flush=True)
    try:
        with openhpu.expect(no_new_graphs=True):
            ask(count)
    except AssertionError as error:
        print(error, flush=True)
"""


def example(*options, seconds=500):
    """What the example prints; it exits with 1 where a token is not the CPU's."""
    command = [sys.executable, "-m", "examples.serve_llm", *options]
    ended = child.run(command, seconds=seconds, cwd=ROOT, farewell=10.0).checked("serve_llm")
    assert not ended.killed
    return ended.output


def counts(output):
    """The counters of requests that are not the first."""
    return {name: int(count) for name, count in re.findall(r"^([\w ]+): (\d+)$", output, re.MULTILINE)}


@pytest.mark.parametrize(("model", "option"), CELLS)
def test_tokens(model, option):
    found = counts(example("--model", model, *option.split()))
    assert {found[name] for name in NEVER} == {0}, found
    if option == "--compile" and RECIPES:
        assert found["ops_node_by_node"] == 0, found
        assert found["ops_in_recipes"] > 1000, found
    assert (found["tokens found in the prefix cache"] > 0) == (option == "--prefix-caching")


@pytest.mark.skipif(LAZY, reason="a recipe for each of the buckets; the compiled mode shows it")
def test_warm_up():
    """vLLM runs all buckets first: the first requests, too, compile nothing, and no operator falls back."""
    output = example("--compile", "--warmup", "--first", "--sequences", "2")
    found = counts(output)
    assert {found[name] for name in ("ops_fallback", "recompilations", "recipes_compiled")} == {0}, found
    # The plugin joins tokens of decodes and prefills by torch.cat, which its warm-up never runs: a first sight.
    assert found["ops_waited"] <= 1, found
    assert "Warmup finished" in output
    assert "was not warmed-up" not in output


@pytest.mark.skipif(LAZY, reason="guards are of torch.compile")
def test_no_new_graphs_after_the_warm_up_of_a_bucket_list(tmp_path):
    """In a real engine `openhpu.expect` is silent for a bucket that is warm, and names another with its guard."""
    ended = child.run(
        [sys.executable, "-c", EXPECTING, str(tmp_path)], seconds=280, cwd=ROOT, farewell=10.0, env=os.environ
    ).checked("the engine")
    first, again, other = re.split("tokens: .*", ended.output)[1:]
    # The plugin remembers its norm in a closure, on which the first graph of the warm-up has a guard: once it is lost.
    assert first.count("a recompilation: ") == 1, first
    assert "vLLM runs prompt 1 x 128" in first
    assert "openhpu.expect" not in again
    assert "vLLM runs prompt 1 x 384" in other
    assert "a guard failed: tensor 'positions' size mismatch" in other
    assert "requests of the step: " in other


def test_ranks():
    """Tensor parallelism over hccl."""
    example("--ranks", "2")
