"""Models in a simulation: `python -m ecosystem.vllm.simulated`. simulated.toml has them.

It needs the lane's environment, and prints a table. `--only WORD` takes some models.
`--page FILE` writes their rows into a document.
"""

import argparse
import json
import os
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from commands import ROOT, child
from ecosystem.vllm import marks
from ecosystem.vllm.served import FP8, LLAMA

_S = 600.0  # for a model
_AROUND = marks.marks("simulated", "python -m ecosystem.vllm.simulated --page")
HEAD = (
    "| model | type | cards | first token, ms | later token, ms | tokens/s | weights of a card, GB | "
    "prompts: no cost of their own | decodes: no cost of their own |\n|---|---|" + "---:|" * 7
)
TRAFFIC = {"num-prompts": 32, "random-input-len": 512, "random-output-len": 64, "request-rate": 8}
OPTIONS = {"max-model-len": 2048, "max-num-seqs": 32}


def simulate(config: dict[str, Any], options: list[str], folder: Path, images: bool = False) -> dict[str, Any]:
    """The answers for a model; one that reads `images` has a processor, too. Raises RuntimeError with what was said."""
    out = folder / "answers.json"
    if images:
        from ecosystem.vllm import made

        config = config | made.processor(folder)
    (folder / "config.json").write_text(json.dumps(config))
    given = [f"--{name}={value}" for name, value in {**TRAFFIC, **OPTIONS}.items()]
    command = [sys.executable, "-m", "openhpu", "serve-sim", "--device=gaudi2", f"--model={folder}", f"--json={out}"]
    environment = os.environ | {"VLLM_SKIP_WARMUP": "true"}
    child.run([*command, *given, *options, "--compile-ms-per-op=1e-6"], seconds=_S, cwd=ROOT, env=environment).checked(
        "serve-sim", RuntimeError
    )
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def _begin(name: str, dtype: str) -> str:
    return f"| {name} | {dtype} |"


def row(name: str, dtype: str, found: dict[str, Any]) -> str:
    """A row of the table."""
    shares = (found[phase]["without_a_cost_of_their_own"] for phase in ("prompt", "decode"))
    cells = [
        found["cards"],
        f"{found['ttft']['median'] * 1e3:,.1f}",
        f"{found['tpot']['median'] * 1e3:,.2f}",
        f"{found['output_tokens_per_s']:,.0f}",
        f"{found['memory']['weights'] / 1e9:,.1f}",
        *(f"{share:.1%}" for share in shares),
    ]
    return f"{_begin(name, dtype)} {' | '.join(map(str, cells))} |"


def put(page: Path, new: dict[str, str], order: list[str]) -> None:
    """Write rows into the page's table, where the others stay. Keys are how a row begins."""
    kept = {begin: line for begin in order for line in marks.read(page, _AROUND).splitlines() if line.startswith(begin)}
    rows = kept | new
    marks.write(page, _AROUND, "\n".join([HEAD, *(rows[begin] for begin in order if begin in rows)]))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m ecosystem.vllm.simulated", description=__doc__)
    parser.add_argument("--only", default="", help="models whose names have this word")
    parser.add_argument("--page", type=Path, help="write the rows into the table of this document")
    options = parser.parse_args(arguments)
    models = tomllib.loads((Path(__file__).parent / "simulated.toml").read_text())["model"]
    order = [_begin(model["name"], dtype) for model in models for dtype in model["dtypes"]]
    print(HEAD, flush=True)
    failed = False
    for model in models:
        if options.only not in model["name"]:
            continue
        for dtype in model["dtypes"]:
            config = (LLAMA if model.get("base") else {}) | model.get("config", {})
            config |= {"quantization_config": FP8} if dtype == "fp8" else {}
            given = [*model.get("options", []), f"--tensor-parallel-size={model['cards']}"]
            with tempfile.TemporaryDirectory() as folder:
                try:
                    found = simulate(config, given, Path(folder), "vision_config" in config)
                except RuntimeError as error:
                    failed = True
                    print(f"{model['name']}, {dtype}: {error}", file=sys.stderr)
                    continue
            text = row(model["name"], dtype, found)
            print(text, flush=True)
            if options.page:
                put(options.page, {_begin(model["name"], dtype): text}, order)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
