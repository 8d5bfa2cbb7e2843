"""The same requests through the simulated engine, or through the real one with tiny weights that is given its times.

python -m ecosystem.vllm.beside simulated FOLDER OUT      writes steps, requests and the prices of all calls
python -m ecosystem.vllm.beside real FOLDER OUT PRICES    runs every call for real; it takes what PRICES says it takes
"""

import dataclasses
import json
import sys
from pathlib import Path

from openhpu_predict.devices import load
from openhpu_predict.serving import answers, engine as engines, traffic
from openhpu_predict.serving.border import Border
from openhpu_predict.serving.real import Real, given
from openhpu_predict.serving.settings import Settings

# Blocks are few, so that requests lose theirs.
OPTIONS = ("--enforce-eager", "--max-num-seqs", "8", "--max-model-len", "1024", "--max-num-batched-tokens", "512")
BLOCKS = ("--num-gpu-blocks-override", "13")


def main(kind: str, folder: str, out: str, prices: str = "") -> None:
    """Serve, and write what happened."""
    border: Border
    if kind == "real":
        real = border = Real(load("gaudi2"), Settings.stated(), json.loads(Path(prices).read_text())["prices"])
        real.begin()
    else:
        border = engines.begin(load("gaudi2"), Settings.stated())
    engine = engines.make(border, folder, [*OPTIONS, *BLOCKS])
    requests = traffic.generate(10, 300, 50, rate=60.0, spread=0.6, seed=1)
    engines.serve(border, engine, requests, 16)
    found = {
        "steps": list(answers.steps(border)),
        "requests": [dataclasses.asdict(one) for one in border.log.requests.values()],
        "end": border.clock.now,
        "ran": getattr(border, "ran", 0),
        "prices": given(border.prices.known),
    }
    Path(out).write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
