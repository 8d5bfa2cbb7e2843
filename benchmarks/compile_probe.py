"""One first start of compiled training in a process of its own.

`peer` is "model" (torch.compile of the model on hpu), "graph" (an HPU graph of the whole step) or "cpu" (torch.compile
of the model on the CPU), `work` one of WORKLOADS. The cache folders that the environment names decide whether it is a
cold or a warm start.
"""

import time
from collections.abc import Callable

import torch

import openhpu
from benchmarks import models
from openhpu import hpu

WORKLOADS = {"MLP": models.MLP, "GPT": models.GPT_SMALL}


def first_start(peer: str, work: str) -> dict[str, float]:
    """Time the first step, and how long it takes until nothing is left to compile, in seconds."""
    training = WORKLOADS[work].training("cpu" if peer == "cpu" else "hpu")
    if peer != "cpu":
        hpu.synchronize()
    step: Callable[[], torch.Tensor] = training.step
    if peer == "graph":
        step = models.Graphed(training)
    else:
        backend = "inductor" if peer == "cpu" else "hpu_backend"
        training.model = torch.compile(training.model, backend=backend)  # type: ignore[assignment]
    start = time.perf_counter()
    step().item()
    first = time.perf_counter() - start
    for _ in range(2):  # backward graphs, and steps that are captured at their second call
        step().item()
    openhpu.wait_for_recipes()
    step().item()
    ready = time.perf_counter() - start
    openhpu.reset_counters()
    step().item()
    alone = openhpu.counters()["ops_node_by_node"]
    return {"first": first, "ready": ready, "node by node": alone}
