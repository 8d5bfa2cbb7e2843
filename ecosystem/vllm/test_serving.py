"""A tiny model of each kind behind vLLM: tokens as transformers' on the CPU, and nothing that a step should not do."""

import re
import sys

import pytest

from commands import ROOT, child


@pytest.mark.parametrize("model", ["llama", "qwen", "mixtral"])
@pytest.mark.parametrize("option", ["", "--prefix-caching", "--warmup"])
def test_tokens(model, option):
    """The example exits with 1 where a token is not the CPU's; it counts over requests that are not the first."""
    command = [sys.executable, "-m", "examples.serve_llm", "--model", model, *option.split()]
    ended = child.run(command, seconds=400, cwd=ROOT)
    assert ended.code == 0, ended.tail
    counts = dict(re.findall(r"^(\w+): (\d+)$", ended.output, re.MULTILINE))
    assert {counts[name] for name in ("ops_fallback", "recompilations", "recipes_compiled", "ops_waited")} == {"0"}
