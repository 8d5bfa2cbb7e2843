"""The operators of media pipes (`habana_frameworks.mediapipe.fn`).

Values are NumPy arrays. Values of bfloat16 are torch's tensors. A batch of images is batch x height x width x 3 (RGB_I)
or batch x 3 x height x width (RGB_P). Shapes in arguments have the fastest changing dimension first, as the hardware
counts.
Sources: the documented operators of Gaudi's media pipes, by name.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from openhpu.interface.media import boxes, coco, colors, drawn, images, readers, types
from openhpu.interface.media.arrays import Array, array, axes, cast, seed
from openhpu.interface.media.pipe import Arguments, MediaPipe, Node


def _window(node: Node, batch: Array) -> tuple[Array, int]:
    """A window of crop_w x crop_h of each image, and the axis of its width. crop_pos_x and crop_pos_y (0 to 1) place
    the window in the rest of the image."""
    given = node.arguments
    vertical, horizontal = axes(node, batch)
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
        self._seed = seed(self.arguments["seed"]) % 2**63
        self._place = 0
        layout = self.arguments["output_format"]
        if layout not in (types.imgtype.RGB_I, types.imgtype.RGB_P):
            raise self.error(f"output_format is {layout!r}; expected imgtype.RGB_I or RGB_P")

    def run(self, files: Sequence[Any], crops: Array | None = None) -> Array:
        assert self._pool is not None
        first, self._place = self._place, self._place + len(files)
        jobs = [
            self._pool.submit(self._decoded, file, first + n, None if crops is None else array(crops)[n])
            for n, file in enumerate(files)
        ]
        made = [job.result() for job in jobs]
        if len({image.shape for image in made}) != 1:
            raise self.error(f"images of {made[0].shape[:2]} and others in one batch; give resize=[width, height]")
        batch = np.stack(made)
        planar = self.arguments["output_format"] == types.imgtype.RGB_P
        return np.ascontiguousarray(batch.transpose(0, 3, 1, 2)) if planar else batch

    def _decoded(self, file: Any, place: int, crop: Array | None) -> Array:
        given = self.arguments
        try:
            image = images.opened(file)
        except Exception as error:
            error.add_note(f"fn.ImageDecoder: image {place} of those it was given, counted from 0")
            raise
        left, top, width, height = self._box(image.width, image.height, place, crop)
        size = tuple(given["resize"]) if any(given["resize"]) else (width, height)
        kind = images.FILTERS.get(given["resampling_mode"], images.BILINEAR)
        # Of the crop, as torchvision has it: `box` of Pillow's resize would let pixels around the crop count.
        image = image.crop((left, top, left + width, top + height)).resize(size, kind)
        x, y, w, h = given["crop_after_resize"]
        return np.asarray(image.crop((x, y, x + w, y + h)) if w and h else image)

    def _box(self, width: int, height: int, place: int, crop: Array | None) -> images.Box:
        given = self.arguments
        kinds = types.randomCropType
        if crop is not None:
            x, y, w, h = (float(share) for share in crop)
            # A window in pixels comes back as it was, though a share in float32 is a little less than its quotient.
            left, top = min(int(x * width + 1e-3), width - 1), min(int(y * height + 1e-3), height - 1)
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

    def run(self, batch: Array, mean: Array, scale: Array) -> Any:
        given = self.arguments
        window, horizontal = _window(self, batch)
        if given["mirror"]:
            window = np.flip(window, horizontal)
        made = np.subtract(window, array(mean), dtype=np.float32)
        np.multiply(made, array(scale), out=made)
        if (given["output_scale"], given["output_zerop"]) != (1.0, 0.0):
            made = made / given["output_scale"] + given["output_zerop"]
        return cast(made, given["dtype"])


class Crop(Node):
    """A window of the images."""

    parameters = _WINDOW

    def run(self, batch: Array) -> Any:
        return cast(_window(self, batch)[0], self.arguments["dtype"])


class RandomFlip(Node):
    """Images flipped where the second input [batch_size] is not zero. `dtype` has to be that of the images."""

    parameters: ClassVar[Arguments] = {"horizontal": 0, "vertical": 0, "depthwise": 0, "dtype": types.dtype.UINT8}

    def run(self, batch: Array, predicate: Array) -> Any:
        wanted = zip(axes(self, batch), ("vertical", "horizontal"), strict=True)
        flipped = tuple(axis for axis, name in wanted if self.arguments[name])
        chosen = array(predicate).reshape(-1) != 0
        if chosen.size == 1:
            chosen = np.repeat(chosen, len(batch))
        if len(chosen) != len(batch):
            raise self.error(f"the predicate has {len(chosen)} values, the batch {len(batch)} images")
        made = batch.copy()
        made[chosen] = np.flip(batch[chosen], flipped)
        return cast(made, self.arguments["dtype"])


class MediaConst(Node):
    """The same array in each batch: `data` in the shape `shape`."""

    parameters: ClassVar[Arguments] = {"data": None, "shape": (1,), "dtype": types.dtype.UINT8}
    required = ("data",)

    def prepare(self, pipe: MediaPipe) -> None:
        shape = tuple(self.arguments["shape"])[::-1]
        self._values = cast(np.asarray(self.arguments["data"]).reshape(shape), self.arguments["dtype"])

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
        return cast(made, self.arguments["dtype"])


class Cast(Node):
    parameters: ClassVar[Arguments] = {"dtype": types.dtype.UINT8}

    def run(self, values: Any) -> Any:
        return cast(values, self.arguments["dtype"])


class _Arithmetic(Node):
    """Of two inputs that broadcast, computed as float32."""

    parameters: ClassVar[Arguments] = {"dtype": types.dtype.UINT8}
    function: Any = None

    def run(self, first: Any, second: Any) -> Any:
        made = type(self).function(array(first).astype(np.float32), array(second).astype(np.float32))
        return cast(made, self.arguments["dtype"])


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

    def run(self, values: Array) -> Any:
        count = values.ndim
        order = list(self.arguments["permutation"])[:count]
        if sorted(order) != list(range(count)):
            raise self.error(f"permutation {order} is none of the {count} dimensions of the input")
        return values.transpose([count - 1 - n for n in reversed(order)])


class Reshape(Node):
    """To `size`, the fastest changing dimension first."""

    parameters: ClassVar[Arguments] = {"size": None, "tensorDim": None, "layout": "", "dtype": types.dtype.UINT8}
    required = ("size",)

    def run(self, values: Array) -> Any:
        return values.reshape(tuple(self.arguments["size"])[::-1])


OPERATORS: dict[str, type[Node]] = {
    kind.__name__: kind
    for kind in (
        readers.ReadImageDatasetFromDir,
        readers.MediaExtReaderOp,
        coco.CocoReader,
        ImageDecoder,
        drawn.CropWindowGen,
        CropMirrorNorm,
        Crop,
        RandomFlip,
        drawn.CoinFlip,
        drawn.RandomUniform,
        drawn.RandomNormal,
        drawn.Constant,
        MediaConst,
        MediaFunc,
        colors.ColorSpaceConversion,
        colors.Brightness,
        colors.Contrast,
        colors.Saturation,
        colors.Hue,
        boxes.SSDBBoxFlip,
        boxes.SSDCropWindowGen,
        boxes.SSDEncode,
        boxes.SSDMetadata,
        Cast,
        Add,
        Sub,
        Mult,
        Transpose,
        Reshape,
    )
}

_VIDEOS = (
    "Pillow, which decodes images here, decodes no videos; decode frames in a reader of your own (MediaExtReaderOp)"
)

# Documented operators that are not built, each with what to do instead.
REFUSED: dict[str, str] = {
    "VideoDecoder": _VIDEOS,
    "ReadVideoDatasetFromDir": _VIDEOS,
    "ReadNumpyDatasetFromDir": "read arrays with MediaExtReaderOp",
    "ExtCpuOp": "use MediaFunc",
    "ExtHpuOp": "a kernel of the hardware does not run here; use MediaFunc",
}
