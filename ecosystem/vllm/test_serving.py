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


def test_ranks():
    """Tensor parallelism over hccl."""
    example("--ranks", "2")
