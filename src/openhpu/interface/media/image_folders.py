"""Batches of torchvision's ImageFolder, made on threads of this process.

A worker process of PyTorch's data loader decodes an image, makes a float tensor of it, and sends a collated batch
through shared memory. Here threads write into the batch itself, because the decoder and the resizing release Python's
lock.
"""

import sys
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import DataLoader, default_collate

from openhpu.interface.media import images

_Array = np.ndarray[Any, Any]


class Plan(NamedTuple):
    """The work of `ImageFolder.transform`. `shape` is that of an image in pixels; `place` gets an RGB image."""

    shape: tuple[int, int]  # height, width
    place: Callable[[Any, np.random.Generator], Any]
    flips: float  # the probability of a horizontal one
    mean: _Array | None
    std: _Array | None


def plan_of(loader: DataLoader[Any]) -> Plan | str:
    """For a loader of an ImageFolder whose transforms end in images of one size; why not, for others."""
    datasets = sys.modules.get("torchvision.datasets")
    dataset = loader.dataset
    if datasets is None or not isinstance(dataset, datasets.ImageFolder):
        return f"the dataset is a {type(dataset).__name__}, not torchvision's ImageFolder"
    if type(dataset).__getitem__ is not datasets.ImageFolder.__getitem__:
        return f"{type(dataset).__name__} has items of its own"
    if dataset.loader is not datasets.folder.default_loader:
        return "the ImageFolder has a loader of its own"
    if dataset.transforms is not None and type(dataset.transforms).__name__ != "StandardTransform":
        return "the ImageFolder has transforms of images and targets together"
    for name, value, usual in (
        ("num_workers", loader.num_workers > 0, True),
        ("collate_fn", loader.collate_fn, default_collate),
        ("worker_init_fn", loader.worker_init_fn, None),
        ("timeout", loader.timeout, 0),
        ("batch_size", loader.batch_sampler is not None, True),
    ):
        if value != usual:
            return f"{name}={getattr(loader, name)!r}"
    return _plan(dataset.transform)


def _plan(transform: Any) -> Plan | str:
    if transform is None:
        return "without transforms its images are no tensors"
    transforms = sys.modules["torchvision.transforms"]
    steps = list(transform.transforms) if type(transform) is transforms.Compose else [transform]
    names = [type(step).__name__ for step in steps]
    if any(type(step) is not getattr(transforms, name, None) for step, name in zip(steps, names, strict=True)):
        return f"transforms that are not torchvision's v1: {', '.join(names)}"
    normalize = steps.pop() if names[-1] == "Normalize" else None
    if not steps or type(steps[-1]) is not transforms.ToTensor:
        return f"the transforms ({', '.join(names)}) do not end in ToTensor or ToTensor, Normalize"
    steps.pop()
    flips = 0.0
    if steps and type(steps[-1]) is transforms.RandomHorizontalFlip:
        flips = float(steps.pop().p)
    mean, std = (None, None) if normalize is None else map(_of_channels, (normalize.mean, normalize.std))
    geometry = [type(step) for step in steps]
    if geometry == [transforms.RandomResizedCrop]:
        return Plan(tuple(steps[0].size), _random_crop(steps[0]), flips, mean, std)
    size = getattr(steps[-1], "size", None) if steps else None
    fixed = geometry in ([transforms.Resize], [transforms.CenterCrop], [transforms.Resize, transforms.CenterCrop])
    if not fixed or not isinstance(size, (list, tuple)) or len(size) != 2:
        return f"the transforms ({', '.join(names)}) do not make images of one size"

    def place(image: Any, rng: np.random.Generator) -> Any:
        for step in steps:
            image = step(image)
        return image

    return Plan((size[0], size[1]), place, flips, mean, std)


def _of_channels(numbers: Any) -> Any:
    """A number for each of three channels, [3, 1, 1]."""
    return np.broadcast_to(np.array(numbers, dtype=np.float32).reshape(-1, 1, 1), (3, 1, 1))


def _random_crop(step: Any) -> Callable[[Any, np.random.Generator], Any]:
    from torchvision.transforms import functional

    def place(image: Any, rng: np.random.Generator) -> Any:
        left, top, width, height = images.random_area(rng, image.width, image.height, step.scale, step.ratio)
        return functional.resized_crop(image, top, left, height, width, step.size, step.interpolation)

    return place


def batches(loader: DataLoader[Any], plan: Plan) -> Iterator[list[torch.Tensor]]:
    """[images, targets] as PyTorch's loader gives them: float32, batch x 3 x height x width, and int64."""
    dataset: Any = loader.dataset
    # As PyTorch draws its workers' seed. An image's numbers depend on it and on the image's place in the epoch.
    seed = int(torch.empty((), dtype=torch.int64).random_(generator=loader.generator).item())
    ahead: deque[tuple[torch.Tensor, list[Any], list[Future[None]]]] = deque()
    pool = ThreadPoolExecutor(loader.num_workers, thread_name_prefix="openhpu-images")
    place = 0

    def begin(indices: Any) -> None:
        nonlocal place
        chosen = [dataset.samples[index] for index in indices]
        batch = torch.empty((len(chosen), 3, *plan.shape), pin_memory=loader.pin_memory)
        arrays = batch.numpy()
        work = [pool.submit(_write, arrays[n], path, plan, (seed, place + n)) for n, (path, _) in enumerate(chosen)]
        targets = [target for _, target in chosen]
        ahead.append((batch, targets, work))
        place += len(chosen)

    try:
        for indices in loader.batch_sampler or ():
            begin(indices)
            if len(ahead) > (loader.prefetch_factor or 2):
                yield _finished(loader, *ahead.popleft())
        while ahead:
            yield _finished(loader, *ahead.popleft())
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _finished(loader: Any, batch: torch.Tensor, targets: list[Any], work: list[Future[None]]) -> list[torch.Tensor]:
    if (transform := loader.dataset.target_transform) is not None:
        targets = [transform(target) for target in targets]
    collated = default_collate(targets)
    for image in work:
        image.result()
    return [batch, collated.pin_memory() if loader.pin_memory and isinstance(collated, torch.Tensor) else collated]


def _write(out: _Array, path: str, plan: Plan, seed: tuple[int, int]) -> None:
    """One image, with the computations of ToTensor and Normalize, in their order."""
    rng = np.random.default_rng(seed)
    values = np.asarray(plan.place(images.opened(path), rng))
    if plan.flips and rng.random() < plan.flips:
        values = values[:, ::-1]
    np.divide(values.transpose(2, 0, 1), np.float32(255), out=out, dtype=np.float32)
    if plan.mean is not None and plan.std is not None:
        np.subtract(out, plan.mean, out=out)
        np.divide(out, plan.std, out=out)
