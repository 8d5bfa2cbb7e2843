"""`python -m ecosystem.ray.work DEVICE FOLDER`: what a cluster of Ray on this machine does with a device; JSON.

The cluster is of this process, and ends with it. Workers get this project by PYTHONPATH.
"""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import ray
import ray.train
import ray.train.torch
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

WORKERS = 2
STEPS = 6
ROWS = 16  # of each worker, a step


class FailingOnceError(RuntimeError):
    """What a worker raises in the middle of a training, the first time."""


class Holder:
    """An actor that holds modules."""

    def report(self) -> dict[str, Any]:
        """Which modules Ray gave, and what PyTorch sees of them."""
        product = torch.ones(2, 2, device="hpu") @ torch.full((2, 2), 3.0, device="hpu")
        return {
            "ids": ray.get_runtime_context().get_accelerator_ids()["HPU"],
            "visible": os.environ["HABANA_VISIBLE_MODULES"],
            "count": torch.hpu.device_count(),  # type: ignore[attr-defined]
            "device": str(product.device),
            "sum": float(product.sum()),
        }


@ray.remote(resources={"HPU": 1}, num_cpus=0)
def taken(number: int) -> tuple[int, list[str], float]:
    """A task on a module: processes are used again for the next."""
    return (
        number,
        ray.get_runtime_context().get_accelerator_ids()["HPU"],
        float(torch.arange(number + 1.0).to("hpu").sum()),
    )


def resources() -> dict[str, Any]:
    """Modules as Ray counts and hands them out."""
    found: dict[str, Any] = {"counted": ray.cluster_resources().get("HPU", 0)}
    holder_of = ray.remote(Holder).options
    holders = [holder_of(resources={"HPU": 1}, num_cpus=0).remote() for _ in range(WORKERS)]
    found["held"] = ray.get([holder.report.remote() for holder in holders], timeout=120)
    found["left"] = ray.available_resources().get("HPU", 0)
    for holder in holders:
        ray.kill(holder)
    pair = holder_of(resources={"HPU": 2}, num_cpus=0).remote()
    found["pair"] = ray.get(pair.report.remote(), timeout=120)
    ray.kill(pair)
    found["tasks"] = ray.get([taken.remote(number) for number in range(6)], timeout=120)
    try:
        ray.get(taken.options(resources={"HPU": 0.5}).remote(0), timeout=60)
    except ValueError as error:
        found["half"] = str(error)
    return found


def training(config: dict[str, Any]) -> None:
    """Of one worker: a step is reported with a checkpoint; `fail` is a file that the first failure makes."""
    context = ray.train.get_context()
    rank = context.get_world_rank()
    device = ray.train.torch.get_device()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
    first = 0
    if checkpoint := ray.train.get_checkpoint():
        with checkpoint.as_directory() as folder:
            saved = torch.load(Path(folder) / "model.pt", weights_only=True)
        model.load_state_dict(saved["model"])
        first = saved["step"] + 1
    model = ray.train.torch.prepare_model(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(STEPS * ROWS * WORKERS, 8, generator=generator)
    data = DataLoader(TensorDataset(x, x.sin().sum(1, keepdim=True)), batch_size=ROWS)
    for step, (given, wanted) in enumerate(ray.train.torch.prepare_data_loader(data)):
        if step < first:
            continue
        if config["fail"] and step == STEPS // 2 and rank == 1 and not Path(config["fail"]).exists():
            Path(config["fail"]).touch()
            raise FailingOnceError("a worker ends in the middle")
        loss = nn.functional.mse_loss(model(given), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean, op=dist.ReduceOp.SUM)
        weights = torch.cat([each.detach().flatten() for each in model.parameters()])
        every = [torch.empty_like(weights) for _ in range(WORKERS)]
        dist.all_gather(every, weights)
        modules: list[str | None] = [None] * WORKERS
        dist.all_gather_object(modules, os.environ.get("HABANA_VISIBLE_MODULES", "none"))
        metrics = {
            "step": step,
            "loss": float(mean) / WORKERS,
            "weights": float(weights.double().cpu().square().sum()),
            "equal": all(torch.equal(each, weights) for each in every),
            "devices": sorted({given.device.type, weights.device.type, device.type}),
            "backend": dist.get_backend(),
            "kind": type(model).__name__,
            "modules": modules,
        }
        with tempfile.TemporaryDirectory() as folder:
            kept = None
            if rank == 0:
                torch.save({"model": model.module.state_dict(), "step": step}, Path(folder) / "model.pt")
                kept = ray.train.Checkpoint.from_directory(folder)
            ray.train.report(metrics, checkpoint=kept)


def trained(device: str, folder: Path, name: str, fail: bool) -> dict[str, Any]:
    """A training of two workers: what they reported last, and the checkpoint."""
    trainer = ray.train.torch.TorchTrainer(
        training,
        train_loop_config={"fail": str(folder / f"{name}-failed") if fail else ""},
        torch_config=ray.train.torch.TorchConfig(backend={"hpu": "hccl", "cpu": "gloo"}[device], timeout_s=120),
        scaling_config=ray.train.ScalingConfig(
            num_workers=WORKERS, resources_per_worker={"CPU": 1} | ({"HPU": 1} if device == "hpu" else {})
        ),
        run_config=ray.train.RunConfig(
            name=name, storage_path=str(folder), failure_config=ray.train.FailureConfig(max_failures=int(fail))
        ),
    )
    result = trainer.fit()
    with result.checkpoint.as_directory() as kept:
        saved = torch.load(Path(kept) / "model.pt", weights_only=True)
    return {
        **result.metrics,
        "failed": fail and (folder / f"{name}-failed").exists(),
        "saved on": sorted({each.device.type for each in saved["model"].values()}),
        "saved step": saved["step"],
    }


def main(device: str, folder: Path) -> dict[str, Any]:
    # "local": not the cluster that another program left, or has.
    ray.init("local", num_cpus=4, include_dashboard=False, log_to_driver=False, object_store_memory=100 << 20)
    try:
        return {
            "resources": resources() if device == "hpu" else {},
            "training": trained(device, folder, "whole", fail=False),
            "again": trained(device, folder, "again", fail=True),
        }
    finally:
        ray.shutdown()


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], Path(sys.argv[2]))))
