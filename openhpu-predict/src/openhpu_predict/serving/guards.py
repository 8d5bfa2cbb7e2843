"""Serves the traffic once more with small real weights under torch.compile, and names each guard that fails.

It is a process of its own: `python -m openhpu_predict.serving.guards JOB`. The simulation's times decide which requests
share a batch, so buckets and requests are those of the simulation.
"""

import json
import pickle
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from openhpu_predict.errors import PredictError
from openhpu_predict.serving.log import Bucket
from openhpu_predict.serving.settings import Settings
from openhpu_predict.serving.traffic import Request

_HEAD = 64  # of a small model
# What the warm-up touches, which compiles and launches nothing (PT_COMPILE_ONLY_MODE).
_STATE = {
    "write": "{op} did not change older memory",
    "read": "{op} read what nothing had computed",
    "kept": "memory of this line lives on without contents",
}
_MOST = {
    "intermediate_size": 512,
    "vocab_size": 1024,
    "num_experts": 8,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 128,
    "shared_expert_intermediate_size": 128,
}


class Job(NamedTuple):
    """What the process gets. `blocks` of the cache; the other fields are those of `engine.serve` and `real.Real`."""

    device: str
    settings: Settings
    model: str
    options: Sequence[str]
    blocks: int
    requests: Sequence[Request]
    block: int
    concurrency: int
    times: dict[str, list[float]]


def shrunk(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration of a model of the same kind with few layers and narrow ones. Raises PredictError."""
    if "vision_config" in config:
        raise PredictError(
            "--guards makes a small model that reads texts, and this one reads images, too: its tower cannot be made "
            "small without its processor; leave --guards out"
        )
    heads = int(config["num_attention_heads"])
    keys = int(config.get("num_key_value_heads") or heads)
    few_keys = min(keys, 2)
    few_heads = few_keys * min(heads // keys, 4)
    layers = min(int(config["num_hidden_layers"]), int(config.get("full_attention_interval") or 2))
    small = config | {
        "num_attention_heads": few_heads,
        "num_key_value_heads": few_keys,
        "num_hidden_layers": layers,
        "hidden_size": few_heads * _HEAD,
    }
    if config.get("head_dim"):
        small["head_dim"] = _HEAD
    if config.get("layer_types"):
        small["layer_types"] = config["layer_types"][:layers]
    for name, most in _MOST.items():
        if isinstance(config.get(name), int):
            small[name] = min(config[name], most)
    for name in ("bos_token_id", "eos_token_id"):
        small[name] = 0
    return small


def blocks(config: Any, requests: Sequence[Request]) -> int:
    """Blocks of the small model's cache: those of the simulation, or fewer if neither buckets nor requests need them.

    `config` is the simulation's VllmConfig.
    """
    size = config.cache_config.block_size
    longest = -(-config.model_config.max_model_len // size) * config.scheduler_config.max_num_seqs
    all_at_once = sum(-(-(one.length + one.output) // size) + 1 for one in requests)
    return int(min(config.cache_config.num_gpu_blocks, max(longest, all_at_once) + 1))


def run(job: Job, config: dict[str, Any], seconds: float) -> dict[str, Any]:
    """What the process found, ready for JSON. Raises PredictError if it fails or needs more than `seconds`."""
    with tempfile.TemporaryDirectory(prefix="openhpu-guards-") as name:
        folder = Path(name)
        (folder / "config.json").write_text(json.dumps(shrunk(config)))
        (folder / "job").write_bytes(pickle.dumps(job._replace(model=str(folder))))
        command = [sys.executable, "-m", __name__, str(folder / "job"), str(folder / "found")]
        with open(folder / "log", "w") as log:
            try:
                code = subprocess.run(command, stdout=log, stderr=log, timeout=seconds, check=False).returncode
            except subprocess.TimeoutExpired:
                raise PredictError(
                    f"--guards: the run with small weights did not end in {seconds:,.0f} s; take fewer requests or "
                    "buckets, or give more: --guards-seconds"
                ) from None
        if code:
            said = (folder / "log").read_text(errors="replace").strip().splitlines()[-3:]
            raise PredictError(f"--guards: the run with small weights failed: {' '.join(said)}")
        found: dict[str, Any] = json.loads((folder / "found").read_text())
    return found


class _Heard:
    """What the run tells of graphs and of state: events become rows."""

    def __init__(self, border: Any) -> None:
        self.rows: list[dict[str, Any]] = []
        self.touched: Counter[tuple[str, str, str]] = Counter()
        self._border = border
        self._reason = ""

    def recompilation(self, event: Any) -> None:
        """Why the next graph is a new one."""
        from openhpu.observe.insight.documents import changed
        from openhpu.observe.insight.sentences import recompilation

        self._reason = recompilation(changed(event.params))

    def graph_traced(self, event: Any) -> None:
        """A new graph."""
        border = self._border
        self.rows.append(
            {
                "at": border.clock.now / 1e9,
                "warm_up": border.warming,
                "line": _line(event),
                "guard": self._reason or "the first graph of its function",
                "bucket": list(border.bucket),
                "requests": border.requests,
            }
        )
        self._reason = ""

    def not_run(self, event: Any) -> None:
        """State that the warm-up touched."""
        self.touched[event.params["what"], event.params["op"], _line(event)] += 1


def _line(event: Any) -> str:
    return f"{event.site[0]}:{event.site[1]}" if event.site else ""


def main(job_path: str, out: str) -> None:
    """In the process."""
    job: Job = pickle.loads(Path(job_path).read_bytes())
    from openhpu.observe import events
    from openhpu_predict.devices import load
    from openhpu_predict.serving import engine as engines
    from openhpu_predict.serving.real import Real

    border = Real(load(job.device), job.settings, job.times)
    heard = _Heard(border)
    border.begin()
    for handler in (heard.recompilation, heard.graph_traced, heard.not_run):
        events.subscribe(handler.__name__, handler)
    options = [*job.options, f"--num-gpu-blocks-override={job.blocks}"]
    engine = engines.make(border, job.model, options)
    words = engine.model_config.get_vocab_size()
    requests = [
        Request(one.arrival, one.length, one.output, [token % words for token in one.tokens], one.blocks)
        for one in job.requests
    ]
    engines.serve(border, engine, requests, job.block, job.concurrency)
    found = {
        "warm_up_graphs": sum(row["warm_up"] for row in heard.rows),
        "warm_up_state": [
            {"what": what, "op": op, "line": line, "times": times}
            for (what, op, line), times in heard.touched.most_common()
        ],
        "calls": border.ran,
        "steps": len(border.log.steps),
        "new": [row for row in heard.rows if not row["warm_up"]],
    }
    Path(out).write_text(json.dumps(found))


def text(found: dict[str, Any]) -> str:
    """For people."""
    rows = [
        f"guards, with small weights under torch.compile: {found['warm_up_graphs']:,} graphs in the warm-up, "
        f"{len(found['new'])} new ones after it, in {found['steps']:,} steps and {found['calls']:,} calls"
    ]
    for one in found["new"]:
        names = ", ".join(one["requests"][:3]) + ", ..." * (len(one["requests"]) > 3)
        rows.append(f"  at {one['at']:,.3f} s, {Bucket(*one['bucket'])}, requests {names}: {one['guard']}")
        rows.append(f"    {one['line']}")
    for one in found["warm_up_state"]:
        rows.append(f"  warm-up: {_STATE[one['what']].format(op=one['op'])}, {one['times']:,} x: {one['line']}")
    return "\n".join(rows)


if __name__ == "__main__":
    main(*sys.argv[1:])
