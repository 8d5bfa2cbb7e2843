"""A tiny model on several machines: `python -m ecosystem.vllm.several WAY KIND FOLDER OUT`.

Writes into the folder OUT what each engine that this process has answered, and what its workers did. WAY: `alone`, one
process without a network; `torchrun`, one of the ranks that a launcher started; `ray`, the head of a cluster, which
waits for the other machines and then serves. KIND: `tensor`, each layer on all ranks, or `pipeline`, each with some of
the layers.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from commands import child
from examples.serve_llm import engine, generate

RAY_PORT = 29655
_RANKS = 2
_TOKENS = 12  # with one more the two likeliest tokens after the long prompt are nearer than a sum in bfloat16 is exact
_LIFE_S = 1600.0  # of a cluster
_COME_S = 600.0  # for the other machines
_RAY = (sys.executable, "-m", "ray.scripts.scripts", "start", "--disable-usage-stats", "--block", "--num-cpus=1")
_PARTS = {"tensor": "tensor_parallel_size", "pipeline": "pipeline_parallel_size"}


def ray_node(address: str, head: str = "") -> list[str]:
    """The command that is a machine of Ray's cluster: its head, or one that comes to a head."""
    small = ["--object-store-memory=100000000", f"--node-ip-address={address}"]
    if head:
        return [*_RAY, *small, f"--address={head}:{RAY_PORT}"]
    return [*_RAY, *small, "--head", f"--port={RAY_PORT}", "--include-dashboard=false"]


def has_head(out: Path) -> Path:
    """The file that says that the cluster has its head, so that other machines may come."""
    return out / "has-head"


@contextmanager
def cluster(address: str, out: Path) -> Iterator[None]:
    """Ray's cluster with this machine as its head, as soon as it has a module for each rank."""
    import ray

    with child.start(ray_node(address), seconds=_LIFE_S) as head:
        end = time.monotonic() + _COME_S
        while True:
            assert head.poll(1.0) is None, head.printed()
            assert time.monotonic() < end, f"no cluster of {_RANKS} modules after {_COME_S:.0f} s\n{head.printed()}"
            try:
                if not ray.is_initialized():
                    ray.init(address=f"{address}:{RAY_PORT}", _node_ip_address=address)
                    has_head(out).touch()
                if ray.cluster_resources().get("HPU", 0) == _RANKS:
                    break
            except ConnectionError:
                continue  # the head is not there yet
        try:
            yield
        finally:
            ray.shutdown()


def worked(worker: Any) -> dict[str, Any]:
    """What a worker of the engine did: called in its process."""
    import openhpu

    counters = openhpu.counters()
    return {
        "rank": worker.rank,
        "address": os.environ.get("VLLM_HOST_IP", ""),
        "fallbacks": counters["ops_fallback"],
        "collectives": counters["collectives"],
        "in memory": counters["collectives_in_memory"],
    }


def answered(folder: Path, **options: Any) -> dict[str, Any]:
    """The tokens that follow each prompt, and what the workers did for them."""
    llm = engine(folder, **options)
    try:
        return {"tokens": [tokens for _, tokens in generate(llm, _TOKENS)], "workers": llm.collective_rpc(worked)}
    finally:
        llm.llm_engine.engine_core.shutdown()  # before its cluster ends


def main(way: str, kind: str, folder: Path, out: Path) -> None:
    os.environ["VLLM_ALLOW_INSECURE_SERIALIZATION"] = "1"  # a function goes to the workers
    parts = {} if way == "alone" else {_PARTS[kind]: _RANKS}
    if way == "ray":
        with cluster(os.environ["VLLM_HOST_IP"], out):
            found = answered(folder, distributed_executor_backend="ray", **parts)
    elif way == "torchrun":
        found = answered(folder, distributed_executor_backend="external_launcher", **parts)
    else:
        found = answered(folder)
    (out / f"{os.environ.get('RANK', '0')}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))
