"""A kernel in TPC-C in a layer of vLLM with its plugin: a tiny Llama generates, and the CPU checks its tokens.

python -m examples.tpc.serve              eager
python -m examples.tpc.serve --compile    by torch.compile; with PT_HPU_LAZY_MODE=1 the mode is lazy

vLLM lets a class take the place of one of its layers (`register_oot`). The plugin registers its layers so, and this
example does it with SiluAndMul, the activation of Llama. vLLM and the plugin have to be installed (docs/serving.md).
Exits with 1 if a token is not what transformers gives on the CPU.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import torch

from examples import serve_llm
from examples.tpc import operators

_TOKENS = 16


def register_layer() -> None:
    """Let vLLM take the operator's layer for its own. It has to be called before a model is made."""
    from vllm.model_executor.layers.activation import SiluAndMul

    @SiluAndMul.register_oot  # type: ignore[untyped-decorator]
    class TpcSiluAndMul(SiluAndMul):  # type: ignore[misc]
        def forward_oot(self, x: torch.Tensor) -> torch.Tensor:
            return operators.silu_and_mul(x)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m examples.tpc.serve", description=__doc__)
    parser.add_argument("--compile", action="store_true")
    options = parser.parse_args()
    operators.build("layer")
    register_layer()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        serve_llm.tiny_model("llama", folder)
        llm = serve_llm.engine(folder, options.compile)
        results = serve_llm.generate(llm, _TOKENS)
        from openhpu.interface.custom_ops import user_operators

        (row,) = [row for row in user_operators() if row["schema"] == "tpc_example::silu_and_mul"]
        print(f"{row['schema']}: {row['calls']} calls, kernel of {Path(row['kernel']).name}")
        worst = max(max(serve_llm.shortfalls(folder, prompt, tokens)) for prompt, tokens in results)
        print(f"{len(results)} prompts agree with the CPU; largest shortfall of a token's logit there: {worst:.3f}")
        return 0 if worst <= serve_llm.NEAR else 1


if __name__ == "__main__":
    sys.exit(main())
