"""One process of the benchmark `images`: prints what it measured as JSON. Arguments: there, or measure, the peer, the
transforms, the workers."""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch

_IMAGES = 256
_BATCH = 32
_EPOCHS = 3


def _torchvision() -> bool:
    """Whether torchvision can be imported, from where the tests install it too."""
    place = Path(sys.prefix) / "torchvision"
    with contextlib.suppress(ImportError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if place.is_dir():
            from tests import vision

            vision.load()
        import torchvision  # noqa: F401

        return True
    return False


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


if __name__ == "__main__":
    there = _torchvision()
    found = {"there": there} if sys.argv[1] == "there" else measure(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    print(json.dumps(found))
