"""The same requests through the simulated engine, or through the real one with tiny weights that is given its times.

python -m ecosystem.vllm.beside simulated FOLDER OUT      writes steps, requests and the prices of all calls
python -m ecosystem.vllm.beside real FOLDER OUT PRICES    runs every call for real; it takes what PRICES says it takes
"""

import dataclasses
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch.utils._pytree import tree_flatten

from openhpu_predict.devices import load
from openhpu_predict.serving import answers, engine as engines, hooks, traffic
from openhpu_predict.serving.border import Border, shape_key
from openhpu_predict.serving.prices import EAGER, Prices
from openhpu_predict.serving.settings import ENVIRONMENT, Settings

# Blocks are few, so that requests lose theirs.
OPTIONS = ("--enforce-eager", "--max-num-seqs", "8", "--max-model-len", "1024", "--max-num-batched-tokens", "512")
BLOCKS = ("--num-gpu-blocks-override", "13")


class Real(Border):
    """A border where weights, cache, model and sampler are real, and only the times are given."""

    def __init__(self, given: dict[str, list[float]]) -> None:
        device = load("gaudi2")
        super().__init__(Prices(device, int(device.hbm_bytes), EAGER), Settings.stated())
        self.given, self.ran = given, 0

    def mem_get_info(self, original: Any) -> Any:
        return original

    def initialize_kv_cache(self, original: Any) -> Any:
        return original

    def defragmenter(self, original: Any) -> Any:
        return original

    def mark_step(self, original: Any) -> Any:
        return original

    def get_model(self, original: Any) -> Any:
        def get_model(vllm_config: Any, **arguments: Any) -> Any:
            vllm_config.load_config.load_format = "dummy"
            return original(vllm_config=vllm_config, **arguments)

        return get_model

    def sample(self, run: Callable[..., Any], logits: Any) -> Any:
        return self.call("sampler", run, {"logits": logits})

    def call(self, what: str, function: Callable[..., Any], arguments: dict[str, Any], options: Any = ()) -> Any:
        chosen = tuple(arguments.pop(one, None) for one in options)
        leaves, _ = tree_flatten(arguments)
        seconds, host = self.given[repr(shape_key(what, chosen, leaves))]
        found = function(**arguments)
        self.ran += 1
        self.clock.launch(seconds)
        self.clock.work(host)
        return found


def main(kind: str, folder: str, out: str, prices: str = "") -> None:
    """Serve, and write what happened."""
    if kind == "real":
        import os

        os.environ.update(ENVIRONMENT)
        border: Border = Real(json.loads(Path(prices).read_text())["prices"])
        hooks.install(border)
    else:
        border = engines.begin(load("gaudi2"), Settings.stated())
    engine = engines.make(border, folder, [*OPTIONS, *BLOCKS])
    requests = traffic.generate(10, 300, 50, rate=60.0, spread=0.6, seed=1)
    engines.serve(border, engine, requests, 16)
    known = {repr(key): [price.seconds, price.host] for key, price in border.prices.known.items()}
    found = {
        "steps": list(answers.steps(border)),
        "requests": [dataclasses.asdict(one) for one in border.log.requests.values()],
        "end": border.clock.now,
        "ran": getattr(border, "ran", 0),
        "prices": known,
    }
    Path(out).write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
