"""Published rows of a served model beside what `openhpu serve-sim` says: `python -m ecosystem.vllm.served`.

It needs the lane's environment. `--page FILE` writes the table into a document. served.toml has the rows and their
assumptions.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from commands import ROOT, child
from ecosystem.vllm import marks

_AROUND = marks.marks("served", "python -m ecosystem.vllm.served --page")
_ERRORS = ROOT / "openhpu-predict/src/openhpu_predict/data/serving-errors.toml"
_INPUT, _OUTPUT = 512, 256
_BLOCK = 128  # tokens
_S = 900.0  # for a row; an idle machine needs half a minute
LLAMA: dict[str, Any] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "torch_dtype": "bfloat16",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-05,
    "rope_theta": 500000.0,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "bos_token_id": 128000,
    "eos_token_id": 128001,
}
FP8 = {"quant_method": "fp8", "activation_scheme": "static"}


class Compared(NamedTuple):
    """A number of a row."""

    row: str
    what: str
    published: float
    predicted: float

    @property
    def error(self) -> float:
        return self.predicted / self.published - 1


def served(row: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What serve-sim says of a row: its answers. Raises RuntimeError."""
    batch, out = row["batch"], folder / "answers.json"
    config = LLAMA | ({"quantization_config": FP8} if row["dtype"] == "fp8" else {})
    (folder / "config.json").write_text(json.dumps(config))
    options = {
        "device": "gaudi2",
        "model": folder,
        "num-prompts": batch,
        "random-input-len": _INPUT,
        "random-output-len": _OUTPUT,
        "json": out,
        "compile-ms-per-op": 1e-6,  # the published times begin after the compilation
        "host-step-ms": 0,  # a loop over a static batch has no scheduler, and launches ahead of the device
        "host-request-us": 0,
        "max-model-len": _INPUT + _OUTPUT,
        "max-num-seqs": batch,
        "max-num-batched-tokens": batch * _INPUT,
        # A static cache has room for the batch alone; vLLM keeps one block for padding.
        "num-gpu-blocks-override": batch * -(-(_INPUT + _OUTPUT) // _BLOCK) + 1,
        "kv-cache-dtype": "fp8_inc" if row["dtype"] == "fp8" else "auto",
    }
    environment = {
        "PT_HPU_LAZY_MODE": "1",
        "VLLM_SKIP_WARMUP": "true",
        "VLLM_PROMPT_BS_BUCKET_MAX": str(batch),
        "VLLM_CONTIGUOUS_PA": "true",  # a static cache is read where it is
    }
    command = [sys.executable, "-m", "openhpu", "serve-sim", *(f"--{name}={value}" for name, value in options.items())]
    child.run(command, seconds=_S, cwd=ROOT, env=os.environ | environment).checked("serve-sim", RuntimeError)
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def compared(row: dict[str, Any], found: dict[str, Any]) -> list[Compared]:
    """The numbers of a row beside the answers."""
    name = f"{row['dtype']}, batch {row['batch']}"
    return [
        Compared(name, "first token, ms", row["first_ms"], found["ttft"]["median"] * 1e3),
        Compared(name, "later token, ms", row["later_ms"], found["tpot"]["median"] * 1e3),
        Compared(name, "output tokens/s", row["tokens_per_s"], found["output_tokens_per_s"]),
        Compared(name, "peak, GB", row["peak_gb"], found["memory"]["peak_used"] / 1e9),
    ]


def table(found: list[Compared]) -> str:
    """As Markdown, with the median error of each kind of number."""
    lines = ["| row | number | published | simulated | error |", "|---|---|---:|---:|---:|"]
    lines += [
        f"| {one.row} | {one.what} | {one.published:,.2f} | {one.predicted:,.2f} | {one.error:+.0%} |" for one in found
    ]
    shown = (f"{kind.partition(',')[0]} {error:.0%}" for kind, error in medians(found).items())
    return "\n".join([*lines, "", f"Median errors: {', '.join(shown)}."])


def medians(found: list[Compared]) -> dict[str, float]:
    """The median error of each kind of number."""
    kinds = dict.fromkeys(one.what for one in found)
    return {kind: statistics.median(abs(one.error) for one in found if one.what == kind) for kind in kinds}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m ecosystem.vllm.served", description=__doc__)
    parser.add_argument("--page", type=Path, help="write the table into this document")
    options = parser.parse_args(arguments)
    found = []
    for row in tomllib.loads((Path(__file__).parent / "served.toml").read_text())["row"]:
        with tempfile.TemporaryDirectory() as folder:
            found += compared(row, served(row, Path(folder)))
    print(table(found))
    if options.page:
        errors = [error for kind, error in medians(found).items() if "token, ms" in kind]
        _ERRORS.write_text(
            "# Written by `python -m ecosystem.vllm.served --page`: the simulation's median errors on published rows.\n"
            f"\n[median]\nfirst = {errors[0]:.3f}\nlater = {errors[1]:.3f}\n"
        )
        marks.write(options.page, _AROUND, table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
