"""The operators of media pipes (`habana_frameworks.mediapipe.fn`).

Values are NumPy arrays. Values of bfloat16 are torch's tensors. A batch of images is batch x height x width x 3 (RGB_I)
or batch x 3 x height x width (RGB_P). Shapes in arguments have the fastest changing dimension first, as the hardware
counts.
Sources: the documented operators of Gaudi's media pipes, by name.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from openhpu.interface.media import images, types
from openhpu.interface.media.pipe import Arguments, MediaPipe, Node, Reader

_Array = np.ndarray[Any, Any]


def _cast(values: Any, name: str) -> Any:
    """To a dtype of `types.dtype`; integers saturate and round."""
    if name == types.dtype.BFLOAT16:
        return torch.from_numpy(np.ascontiguousarray(_array(values), dtype=np.float32)).to(torch.bfloat16)
    wanted = np.dtype(name)
    array = _array(values)
    if wanted.kind in "iu":
        bounds = np.iinfo(wanted)
        array = np.clip(np.rint(array) if array.dtype.kind == "f" else array, bounds.min, bounds.max)
    return array.astype(wanted, copy=False)


def _array(values: Any) -> _Array:
    return values.float().numpy() if isinstance(values, torch.Tensor) else np.asarray(values)


def _seed(given: int | None) -> int:
    return int(torch.empty((), dtype=torch.int64).random_().item()) if given is None else given


def _window(node: Node, batch: _Array) -> tuple[_Array, int]:
    """A window of crop_w x crop_h of each image, and the axis of its width. crop_pos_x and crop_pos_y (0 to 1) place
    the window in the rest of the image."""
    given = node.arguments
    vertical, horizontal = _axes(node, batch)
    have = batch.shape[horizontal], batch.shape[vertical]
    width, height = given["crop_w"] or have[0], given["crop_h"] or have[1]
    if not (0 < width <= have[0] and 0 < height <= have[1]):
        raise node.error(f"the window is {width} x {height} (crop_w x crop_h), the images are {have[0]} x {have[1]}")
    for name in ("crop_pos_x", "crop_pos_y"):
        if not 0 <= given[name] <= 1:
            raise node.error(f"{name} is {given[name]}; expected a share from 0 to 1")
    place: list[slice] = [slice(None)] * batch.ndim
    x, y = round(given["crop_pos_x"] * (have[0] - width)), round(given["crop_pos_y"] * (have[1] - height))
    place[horizontal], place[vertical] = slice(x, x + width), slice(y, y + height)
    return batch[tuple(place)], horizontal


_WINDOW: Arguments = {
    "crop_w": 0,
    "crop_h": 0,
    "crop_d": 0,
    "crop_pos_x": 0.5,
    "crop_pos_y": 0.5,
    "crop_pos_z": 0.0,
    "pad_val": 0,
    "dtype": types.dtype.UINT8,
}


def _axes(node: Node, batch: _Array) -> tuple[int, int]:
    """Of height and width."""
    if batch.ndim == 4 and batch.shape[3] == 3:
        return 1, 2
    if batch.ndim == 4 and batch.shape[1] == 3:
        return 2, 3
    raise node.error(f"expected a batch of RGB images; got an array of the shape {batch.shape}")


class ReadImageDatasetFromDir(Reader):
    """Paths of images and their classes: folders of `dir` in alphabetical order, or `file_list` with `class_list` and
    `file_classes` (a name for each file). `format`: the files' suffix. Two outputs: paths, and labels [batch_size]."""

    parameters: ClassVar[Arguments] = {
        "shuffle": True,
        "seed": None,
        "drop_remainder": False,
        "pad_remainder": False,
        "num_slices": 1,
        "slice_index": 0,
        "dir": "",
        "format": "JPEG",
        "file_list": (),
        "class_list": (),
        "file_classes": (),
        "file_sizes": (),
        "max_file": None,
        "label_dtype": types.dtype.UINT32,
    }
    outputs = 2

    def prepare(self, pipe: MediaPipe) -> None:
        given = self.arguments
        if len(given["file_list"]):
            files, names = given["file_list"], given["file_classes"]
            if len(files) != len(names):
                raise self.error(f"file_list has {len(files)} files, file_classes {len(names)} names; expected as many")
            classes = list(given["class_list"]) or sorted(set(names))
            if unknown := set(names) - set(classes):
                raise self.error(f"{sorted(unknown)[0]!r} of file_classes is not in class_list")
            number = {name: n for n, name in enumerate(classes)}
            self._files = [str(file) for file in files]
            self._labels = np.array([number[name] for name in names])
        else:
            self._files, self._labels = self._found(Path(given["dir"]), given["format"])
        slices = given["num_slices"]
        index = given["slice_index"]
        self._batch = pipe.get_batch_size()
        if slices < 1 or not 0 <= index < slices:
            raise self.error(f"slice_index is {index} of num_slices {slices}; expected 0 to {slices - 1}")
        self._rng = np.random.default_rng(_seed(given["seed"]) % 2**63)
        # Each slice is as long, so that all cards have as many batches.
        each = math.ceil(len(self._files) / slices)
        self._own = np.arange(index * each, (index + 1) * each) % len(self._files)
        if self.batches() == 0:
            few = f"{len(self._own)} elements are not one batch of {self._batch}"
            raise self.error(f"{few}; drop_remainder=False fills it up")

    @staticmethod
    def _found(folder: Path, suffix: str) -> tuple[list[str], _Array]:
        if not folder.is_dir():
            raise FileNotFoundError(f"fn.ReadImageDatasetFromDir: dir {str(folder)!r} is not a folder")
        wanted = "." + suffix.lower().lstrip(".")
        files, labels = [], []
        for label, place in enumerate(sorted(p for p in folder.iterdir() if p.is_dir())):
            own = sorted(str(p) for p in place.iterdir() if p.suffix.lower() == wanted)
            files += own
            labels += [label] * len(own)
        if not files:
            raise FileNotFoundError(
                f"fn.ReadImageDatasetFromDir: the folders of {str(folder)!r} have no file *{wanted} (format={suffix!r})"
            )
        return files, np.array(labels)

    def batches(self) -> int:
        whole = len(self._own) / self._batch
        return math.floor(whole) if self.arguments["drop_remainder"] else math.ceil(whole)

    def begin(self) -> None:
        """Whole batches of the slice's elements, in this order."""
        self._next = 0
        self._order: _Array = self._rng.permutation(self._own) if self.arguments["shuffle"] else self._own

    def run(self) -> tuple[list[str], Any]:
        if self._next >= self.batches():
            raise StopIteration
        chosen = self._order[self._next * self._batch : (self._next + 1) * self._batch]
        self._next += 1
        if missing := self._batch - len(chosen):
            # The last element again, or ones at random.
            pad = self.arguments["pad_remainder"]
            more = np.repeat(chosen[-1:], missing) if pad else self._rng.choice(self._own, missing)
            chosen = np.concatenate((chosen, more))
        return [self._files[n] for n in chosen], _cast(self._labels[chosen], self.arguments["label_dtype"])


class MediaExtReaderOp(Node):
    """A reader of the script's: `impl`, derived from `media_ext_reader_op_impl`, called with a dict of `priv_params`,
    `batch_size`, `seed` and `num_outputs`."""

    parameters: ClassVar[Arguments] = {"impl": None, "num_outputs": 2, "seed": 0, "priv_params": None}
    required = ("impl", "num_outputs")

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.outputs = int(self.arguments["num_outputs"])

    def prepare(self, pipe: MediaPipe) -> None:
        given = {**self.arguments, "batch_size": pipe.get_batch_size()}
        self._impl = given.pop("impl")(given)

    def begin(self) -> None:
        self._items = iter(self._impl)

    def run(self) -> Any:
        found = next(self._items)
        if self.outputs > 1 and len(found) != self.outputs:
            raise self.error(f"the reader gave {len(found)} outputs, num_outputs is {self.outputs}")
        return found


class ImageDecoder(Node):
    """Images from paths, or from their files' bytes: RGB, uint8, of the size `resize` (width, height; [0, 0] keeps it,
    which all of a batch must have then).

    Inputs: the files, and optionally crops as float32 [batch, 4] (left, top, width, height as shares of the image).
    `random_crop_type` crops by itself, with `scale_min` to `ratio_max` as RandomResizedCrop of torchvision has them.
    """

    parameters: ClassVar[Arguments] = {
        "output_format": types.imgtype.RGB_I,
        "resize": (0, 0),
        "crop_after_resize": (0, 0, 0, 0),
        "resampling_mode": types.ftype.BI_LINEAR,
        "random_crop_type": types.randomCropType.NO_RANDOM_CROP,
        "decoder_stage": types.decoderStage.ENABLE_ALL_STAGES,
        "scale_min": 0.08,
        "scale_max": 1.0,
        "ratio_min": 3 / 4,
        "ratio_max": 4 / 3,
        "seed": None,
    }

    def prepare(self, pipe: MediaPipe) -> None:
        self._pool = pipe.pool
        self._seed = _seed(self.arguments["seed"]) % 2**63
        self._place = 0
        layout = self.arguments["output_format"]
        if layout not in (types.imgtype.RGB_I, types.imgtype.RGB_P):
            raise self.error(f"output_format is {layout!r}; expected imgtype.RGB_I or RGB_P")

    def run(self, files: Sequence[Any], crops: _Array | None = None) -> _Array:
        assert self._pool is not None
        first, self._place = self._place, self._place + len(files)
        jobs = [
            self._pool.submit(self._decoded, file, first + n, None if crops is None else _array(crops)[n])
            for n, file in enumerate(files)
        ]
        made = [job.result() for job in jobs]
        if len({image.shape for image in made}) != 1:
            raise self.error(f"images of {made[0].shape[:2]} and others in one batch; give resize=[width, height]")
        batch = np.stack(made)
        planar = self.arguments["output_format"] == types.imgtype.RGB_P
        return np.ascontiguousarray(batch.transpose(0, 3, 1, 2)) if planar else batch

    def _decoded(self, file: Any, place: int, crop: _Array | None) -> _Array:
        given = self.arguments
        image = images.opened(file)
        left, top, width, height = self._box(image.width, image.height, place, crop)
        size = tuple(given["resize"]) if any(given["resize"]) else (width, height)
        kind = images.FILTERS.get(given["resampling_mode"], images.BILINEAR)
        image = image.resize(size, kind, (left, top, left + width, top + height))
        x, y, w, h = given["crop_after_resize"]
        return np.asarray(image.crop((x, y, x + w, y + h)) if w and h else image)

    def _box(self, width: int, height: int, place: int, crop: _Array | None) -> images.Box:
        given = self.arguments
        kinds = types.randomCropType
        if crop is not None:
            x, y, w, h = (float(share) for share in crop)
            left, top = min(int(x * width), width - 1), min(int(y * height), height - 1)
            return left, top, max(1, min(round(w * width), width - left)), max(1, min(round(h * height), height - top))
        if given["random_crop_type"] == kinds.NO_RANDOM_CROP:
            return 0, 0, width, height
        if given["random_crop_type"] == kinds.CENTER_CROP:
            side = min(width, height)
            return (width - side) // 2, (height - side) // 2, side, side
        scale = (given["scale_min"], given["scale_max"])
        if given["random_crop_type"] == kinds.RANDOMIZED_ASPECT_RATIO_CROP:
            scale = (given["scale_max"], given["scale_max"])
        rng = np.random.default_rng((self._seed, place))
        return images.random_area(rng, width, height, scale, (given["ratio_min"], given["ratio_max"]))


class CropMirrorNorm(Node):
    """(window of the images - mean) * inv_std. Inputs: images, mean, inv_std, which broadcast with them."""

    parameters: ClassVar[Arguments] = {"mirror": 0, **_WINDOW, "output_scale": 1.0, "output_zerop": 0.0}

    def run(self, batch: _Array, mean: _Array, scale: _Array) -> Any:
        given = self.arguments
        window, horizontal = _window(self, batch)
        if given["mirror"]:
            window = np.flip(window, horizontal)
        made = np.subtract(window, _array(mean), dtype=np.float32)
        np.multiply(made, _array(scale), out=made)
        if (given["output_scale"], given["output_zerop"]) != (1.0, 0.0):
            made = made / given["output_scale"] + given["output_zerop"]
        return _cast(made, given["dtype"])


class Crop(Node):
    """A window of the images."""

    parameters = _WINDOW

    def run(self, batch: _Array) -> Any:
        return _cast(_window(self, batch)[0], self.arguments["dtype"])


class RandomFlip(Node):
    """Images flipped where the second input [batch_size] is not zero. `dtype` has to be that of the images."""

    parameters: ClassVar[Arguments] = {"horizontal": 0, "vertical": 0, "depthwise": 0, "dtype": types.dtype.UINT8}

    def run(self, batch: _Array, predicate: _Array) -> Any:
        axes = zip(_axes(self, batch), ("vertical", "horizontal"), strict=True)
        flipped = tuple(axis for axis, wanted in axes if self.arguments[wanted])
        chosen = _array(predicate).reshape(-1) != 0
        if len(chosen) != len(batch):
            raise self.error(f"the predicate has {len(chosen)} values, the batch {len(batch)} images")
        made = batch.copy()
        made[chosen] = np.flip(batch[chosen], flipped)
        return _cast(made, self.arguments["dtype"])


class MediaConst(Node):
    """The same array in each batch: `data` in the shape `shape`."""

    parameters: ClassVar[Arguments] = {"data": None, "shape": (1,), "dtype": types.dtype.UINT8}
    required = ("data",)

    def prepare(self, pipe: MediaPipe) -> None:
        shape = tuple(self.arguments["shape"])[::-1]
        self._values = _cast(np.asarray(self.arguments["data"]).reshape(shape), self.arguments["dtype"])

    def run(self) -> Any:
        return self._values


class MediaFunc(Node):
    """What a class of the script's returns for each batch: `func`, derived from `media_function`, made with a dict of
    `shape`, `dtype`, `seed`, `priv_params`, `batch_size` and called with the inputs. Expected: an array of the reversed
    `shape`."""

    parameters: ClassVar[Arguments] = {
        "func": None,
        "shape": (1,),
        "dtype": types.dtype.UINT8,
        "seed": 0,
        "priv_params": None,
    }
    required = ("func",)
    inputs = (0, 4)

    def prepare(self, pipe: MediaPipe) -> None:
        given = {**self.arguments, "batch_size": pipe.get_batch_size(), "unique_number": 0}
        self._call = given.pop("func")({**given, "shape": list(given["shape"])})

    def run(self, *inputs: Any) -> Any:
        made = np.asarray(self._call(*inputs))
        expected = tuple(self.arguments["shape"])[::-1]
        if made.shape != expected:
            found = f"{type(self._call).__name__} returned the shape {made.shape}"
            raise self.error(f"{found}; expected {expected}, the reverse of shape=")
        return _cast(made, self.arguments["dtype"])


class Cast(Node):
    parameters: ClassVar[Arguments] = {"dtype": types.dtype.UINT8}

    def run(self, values: Any) -> Any:
        return _cast(values, self.arguments["dtype"])


class _Arithmetic(Node):
    """Of two inputs that broadcast, computed as float32."""

    parameters: ClassVar[Arguments] = {"dtype": types.dtype.UINT8}
    function: Any = None

    def run(self, first: Any, second: Any) -> Any:
        made = type(self).function(_array(first).astype(np.float32), _array(second).astype(np.float32))
        return _cast(made, self.arguments["dtype"])


class Add(_Arithmetic):
    function = np.add


class Sub(_Arithmetic):
    function = np.subtract


class Mult(_Arithmetic):
    function = np.multiply


class Transpose(Node):
    """`permutation` of the dimensions, the fastest changing first."""

    parameters: ClassVar[Arguments] = {"permutation": None, "tensorDim": None, "dtype": types.dtype.UINT8}
    required = ("permutation",)

    def run(self, values: _Array) -> Any:
        count = values.ndim
        order = list(self.arguments["permutation"])[:count]
        if sorted(order) != list(range(count)):
            raise self.error(f"permutation {order} is none of the {count} dimensions of the input")
        return values.transpose([count - 1 - n for n in reversed(order)])


class Reshape(Node):
    """To `size`, the fastest changing dimension first."""

    parameters: ClassVar[Arguments] = {"size": None, "tensorDim": None, "layout": "", "dtype": types.dtype.UINT8}
    required = ("size",)

    def run(self, values: _Array) -> Any:
        return values.reshape(tuple(self.arguments["size"])[::-1])


OPERATORS: dict[str, type[Node]] = {
    kind.__name__: kind
    for kind in (
        ReadImageDatasetFromDir,
        MediaExtReaderOp,
        ImageDecoder,
        CropMirrorNorm,
        Crop,
        RandomFlip,
        MediaConst,
        MediaFunc,
        Cast,
        Add,
        Sub,
        Mult,
        Transpose,
        Reshape,
    )
}
