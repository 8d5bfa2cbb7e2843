"""images: a folder of photographs through torch's DataLoader and through HabanaDataLoader, with equal workers.

Each peer is a process of its own, asked in turns. Needs torchvision.
"""

import contextlib
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.children import probe
from benchmarks.parts import part
from benchmarks.report import Table
from benchmarks.timing import Spread


def _measured(transforms: str, workers: int, rounds: int) -> tuple[dict[str, list[float]], set[float]]:
    """Images a second of each peer, and the sums of what they gave."""
    found: dict[str, list[float]] = {"torch": [], "here": []}
    sums = set()
    for _ in range(rounds):
        for peer in found:
            measured = probe("images:measure", peer, transforms, workers)
            found[peer].append(measured["images a second"])
            sums.add(round(measured["sum"], 3))
    return found, sums


def images(rounds: int) -> list[Table]:
    """Images a second, of the transforms of training and of evaluation."""
    table = Table(
        "Images of 500 x 375 a second, batches of 32", ["transforms", "workers", "torch", "here", "torch / here"]
    )
    if not probe("images:there")["there"]:
        table.notes.append("Left out: torchvision is not installed.")
        return [table]
    for transforms in ("training", "evaluation"):
        for workers in (1, 2):
            found, sums = part(f"{transforms}, {workers}", _measured, transforms, workers, rounds)
            if transforms == "evaluation" and len(sums) != 1:
                raise AssertionError(f"the peers' images differ: {sums}")
            ratio = Spread.of_ratios(found["torch"], found["here"])
            table.rows.append([transforms, workers, Spread.of(found["torch"]), Spread.of(found["here"]), ratio])
    table.notes.append("From the first batch asked for to the last one there, without the start of workers' processes.")
    return [table]


_IMAGES = 256
_BATCH = 32
_EPOCHS = 3


def there() -> dict[str, bool]:
    """Whether torchvision can be imported, from where the tests install it too."""
    place = Path(sys.prefix) / "torchvision"
    with contextlib.suppress(ImportError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if place.is_dir():
            from tests import vision

            vision.load()
        import torchvision  # noqa: F401

        return {"there": True}
    return {"there": False}


def _photographs(folder: Path) -> None:
    """Smooth pictures with noise, of the size and weight (about 70 KB) that ImageNet's have."""
    from PIL import Image

    rng = np.random.default_rng(0)
    for n in range(_IMAGES):
        smooth = Image.fromarray(rng.integers(0, 256, (9, 12, 3), dtype=np.uint8)).resize((500, 375), 3)
        noisy = np.asarray(smooth, dtype=np.int16) + rng.normal(0, 8, (375, 500, 3))
        place = folder / f"class{n % 4}"
        place.mkdir(exist_ok=True)
        Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(place / f"{n}.jpg", quality=90)


def measure(peer: str, kind: str, workers: int) -> dict[str, Any]:
    """Images a second of an epoch, the best of a few; and the sum of all values."""
    there()
    from torchvision import datasets, transforms as t

    from habana_dataloader import HabanaDataLoader

    normal = [t.ToTensor(), t.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225])]
    steps = {
        "training": [t.RandomResizedCrop(224), t.RandomHorizontalFlip()],
        "evaluation": [t.Resize(256), t.CenterCrop(224)],
    }[kind]
    with tempfile.TemporaryDirectory() as folder:
        _photographs(Path(folder))
        data = datasets.ImageFolder(folder, t.Compose(steps + normal))
        loader_type: Any = HabanaDataLoader if peer == "here" else torch.utils.data.DataLoader
        # The workers of PyTorch's stay, so that an epoch does not begin with their start.
        loader = loader_type(data, batch_size=_BATCH, num_workers=workers, persistent_workers=True)
        if peer == "here" and loader.fallback_reason is not None:
            raise RuntimeError(loader.fallback_reason)
        fastest, total = 0.0, 0.0
        for _ in range(_EPOCHS):
            begin = time.perf_counter()
            batches = list(loader)
            fastest = max(fastest, _IMAGES / (time.perf_counter() - begin))
            total = sum(float(batch.double().sum()) for batch, _ in batches)
    return {"images a second": fastest, "sum": total}
