"""The reader of data sets of objects in images, as COCO has them."""

import json
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from openhpu.interface.media.arrays import Array
from openhpu.interface.media.pipe import Arguments, MediaPipe
from openhpu.interface.media.readers import IndexedReader

MOST_BOXES = 200


class Entry(NamedTuple):
    """An image with its objects: `boxes` [n, 4] (left, top, right, bottom as shares of the image) and `labels` [n]."""

    file: str
    number: int
    height: int
    width: int
    boxes: Array
    labels: Array


class CocoReader(IndexedReader):
    """Images of `root` with the objects that the JSON file `annfile` names. Images without one are left out.

    Outputs: paths; ids [batch]; sizes [batch, 2], height and width in pixels; boxes, float32 [batch, 200, 4] (left,
    top, right, bottom as shares of the image, 0 behind the last one); labels [batch, 200], the categories' numbers from
    1 in the order of the file; lengths [batch]; and [1], how many images of the batch do not fill it up. All but boxes
    are uint32. The first 200 objects of an image count. Raises ValueError, which names file and entry, for what is no
    such data. Source: cocodataset.org, Data format.
    """

    parameters: ClassVar[Arguments] = {
        **IndexedReader.order,
        "shuffle": False,
        "root": None,
        "annfile": None,
        "partial_batch": False,
        "max_file": None,
    }
    required = ("root", "annfile")
    outputs = 7

    def prepare(self, pipe: MediaPipe) -> None:
        self._entries = entries(Path(self.arguments["root"]), Path(self.arguments["annfile"]))
        self.begin_with(len(self._entries), pipe)

    def run(self) -> tuple[Any, ...]:
        chosen, whole = self.chosen()
        found = [self._entries[n] for n in chosen]
        boxes = np.zeros((len(found), MOST_BOXES, 4), np.float32)
        labels = np.zeros((len(found), MOST_BOXES), np.uint32)
        for n, entry in enumerate(found):
            boxes[n, : len(entry.boxes)] = entry.boxes
            labels[n, : len(entry.labels)] = entry.labels
        return (
            [entry.file for entry in found],
            np.array([entry.number for entry in found], np.uint32),
            np.array([(entry.height, entry.width) for entry in found], np.uint32),
            boxes,
            labels,
            np.array([len(entry.boxes) for entry in found], np.uint32),
            np.array([whole], np.uint32),
        )


def entries(root: Path, annotations: Path) -> list[Entry]:
    """The images of an annotation file that have objects, in its order."""
    document = _document(annotations)
    kinds = [_field(annotations, "categories", n, entry, "id") for n, entry in enumerate(document["categories"])]
    numbers = {kind: n + 1 for n, kind in enumerate(kinds)}
    images = _images(annotations, document["images"])
    objects: dict[int, list[tuple[list[float], int]]] = {}
    for n, item in enumerate(document["annotations"]):
        image, kind, box = (
            _field(annotations, "annotations", n, item, key) for key in ("image_id", "category_id", "bbox")
        )
        if image not in images:
            raise _error(annotations, "annotations", n, f"image_id {image!r} is no image of the file")
        if kind not in numbers:
            raise _error(annotations, "annotations", n, f"category_id {kind!r} is no category of the file")
        _, height, width = images[image]
        objects.setdefault(image, []).append((_corners(annotations, n, box, height, width), numbers[kind]))
    if not objects:
        raise ValueError(f"fn.CocoReader: {annotations}: no image has an object")
    made = []
    for number, (name, height, width) in images.items():
        own = objects.get(number, [])[:MOST_BOXES]
        if own:
            boxes, labels = zip(*own, strict=True)
            made.append(
                Entry(str(root / name), number, height, width, np.array(boxes, np.float32), np.array(labels, np.uint32))
            )
    return made


def _images(file: Path, listed: list[Any]) -> dict[int, tuple[str, int, int]]:
    """By the number of an image: its file's name, its height and its width."""
    images: dict[int, tuple[str, int, int]] = {}
    for n, image in enumerate(listed):
        name, height, width = (_field(file, "images", n, image, key) for key in ("file_name", "height", "width"))
        if not (_is_size(height) and _is_size(width)):
            text = f"height is {height!r}, width {width!r}; expected whole numbers above 0"
            raise _error(file, "images", n, text)
        images[_field(file, "images", n, image, "id")] = str(name), height, width
    return images


def _document(file: Path) -> dict[str, list[Any]]:
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"fn.CocoReader: annfile {file} can't be read as JSON: {error}") from error
    for part in ("images", "annotations", "categories"):
        if not isinstance(document, dict) or not isinstance(document.get(part), list):
            raise ValueError(f"fn.CocoReader: {file} has no list {part!r}, as an annotation file of COCO has it")
    return document


def _field(file: Path, part: str, n: int, entry: Any, key: str) -> Any:
    if not isinstance(entry, dict) or key not in entry:
        raise _error(file, part, n, f"it has no {key!r}")
    return entry[key]


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and value > 0


def _corners(file: Path, n: int, box: Any, height: int, width: int) -> list[float]:
    """Left, top, right, bottom as shares, of [x, y, width, height] in pixels."""
    numbers = isinstance(box, list) and len(box) == 4 and all(isinstance(v, (int, float)) for v in box)
    if not numbers or not (np.isfinite(box).all() and box[2] >= 0 and box[3] >= 0):
        raise _error(file, "annotations", n, f"bbox is {box!r}; expected [x, y, width, height] in pixels")
    x, y, w, h = box
    return [x / width, y / height, (x + w) / width, (y + h) / height]


def _error(file: Path, part: str, n: int, text: str) -> ValueError:
    return ValueError(f"fn.CocoReader: {file}: {part}[{n}]: {text}")
