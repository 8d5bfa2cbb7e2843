"""The same on both devices: in one process, or by a script that has one device for its process, as trainers have."""

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.testing import assert_close
from torch.utils._pytree import tree_leaves, tree_map

from commands import child

TIMEOUT_S = 900


def moved(value: Any, device: str) -> Any:
    """Nested `value` with its tensors on `device`."""
    return tree_map(lambda each: each.to(device) if isinstance(each, torch.Tensor) else each, value)


def tensors(value: Any) -> list[torch.Tensor]:
    """The tensors in nested `value`."""
    return [each for each in tree_leaves(value) if isinstance(each, torch.Tensor)]


def assert_same(compute: Callable[[str], Any], **close: Any) -> Any:
    """Asserts that `compute` gives for "hpu" what it gives for "cpu", in tensors of that device; what "cpu" gave."""
    expected, found = compute("cpu"), compute("hpu")
    assert tensors(expected)
    assert {each.device.type for each in tensors(found)} == {"hpu"}
    assert_close(moved(found, "cpu"), expected, **close)
    return expected


def same(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor], rtol: float, atol: float) -> None:
    """Asserts that the device's tensors are the CPU's, and lie on the device. `atol`: of numbers up to 1."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name].device.type == "hpu", name
        largest = float(value.abs().max()) if value.is_floating_point() and value.numel() else 1.0
        message = partial("{}: {}".format, name)
        assert_close(found[name].cpu(), value, rtol=rtol, atol=atol * max(largest, 1.0), msg=message)


def shaken(model: Any, scale: float) -> Any:
    """The model with noise on its matrices: initial weights are near 0, and results, too: nothing would be compared."""
    with torch.no_grad():
        for p in model.parameters():
            if p.ndim > 1 and p.requires_grad:
                p.add_(torch.randn(p.shape) * scale)
    return model


def options(folder: Path, device: str, steps: int, **changes: Any) -> dict[str, Any]:
    """The arguments of a Trainer of so many steps."""
    return {
        "output_dir": str(folder),
        "max_steps": steps,
        "per_device_train_batch_size": 4,
        "logging_steps": 1,
        "learning_rate": 1e-3,
        "report_to": [],
        "save_strategy": "no",
        "disable_tqdm": True,
        "use_cpu": device == "cpu",
        "seed": 3,
        **changes,
    }


def logged(trainer: Any, name: str = "loss") -> list[float]:
    """The values that a Trainer logged."""
    return [entry[name] for entry in trainer.state.log_history if name in entry]


def rows(labels: int = 12, classes: bool = False) -> list[dict[str, torch.Tensor]]:
    """Token sequences for a Trainer: each is to be continued, or of one of four classes."""
    made = []
    for number in range(24):
        ids = (torch.arange(12) * (number % 5 + 1)) % 90 + 5
        answer = torch.tensor(number % 4) if classes else ids[:labels].clone()
        made.append({"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": answer})
    return made


def on_both(module: str, folder: Path) -> dict[str, Any]:
    """What `python -m module DEVICE FOLDER` prints last, JSON, for "cpu" and "hpu", which run at once.

    Raises ChildError, with what it said, if one fails.
    """
    asked = {}
    for device in ("cpu", "hpu"):
        (folder / device).mkdir()
        command = [sys.executable, "-m", module, device, str(folder / device)]
        asked[device] = {"argv": command, "seconds": TIMEOUT_S, "cwd": folder / device, "split": True}
    return {
        device: json.loads(ended.checked(f"{module} on {device}").output.splitlines()[-1])
        for device, ended in zip(asked, child.run_at_once(asked.values()), strict=True)
    }
