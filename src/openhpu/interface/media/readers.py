"""Readers of media pipes: they decide which files a batch has, and how many batches an epoch."""

import inspect
import math
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from openhpu.interface.media import types
from openhpu.interface.media.arrays import Array, cast, seed
from openhpu.interface.media.pipe import Arguments, MediaPipe, Reader


class IndexedReader(Reader):
    """A reader of a list of elements. `num_slices` cards share it: this one has slice `slice_index`.

    The last elements, too few for a batch, are left out (`drop_remainder`), or filled up with the last one
    (`pad_remainder`) or with others at random. Derived classes call `begin_with` in `prepare`.
    """

    order: ClassVar[Arguments] = {
        "shuffle": True,
        "seed": None,
        "drop_remainder": False,
        "pad_remainder": False,
        "num_slices": 1,
        "slice_index": 0,
    }

    def begin_with(self, count: int, pipe: MediaPipe) -> None:
        """The number of elements is known. Raises ValueError for a slice that is none, and for too few elements."""
        given = self.arguments
        slices, index = given["num_slices"], given["slice_index"]
        self._batch = pipe.get_batch_size()
        if slices < 1 or not 0 <= index < slices:
            raise self.error(f"slice_index is {index} of num_slices {slices}; expected 0 to {slices - 1}")
        self._rng = np.random.default_rng(seed(given["seed"]) % 2**63)
        # Each slice is as long, so that all cards have as many batches.
        each = math.ceil(count / slices)
        self._own = np.arange(index * each, (index + 1) * each) % count
        if self.batches() == 0:
            few = f"{len(self._own)} elements are not one batch of {self._batch}"
            raise self.error(f"{few}; drop_remainder=False fills it up")

    def batches(self) -> int:
        whole = len(self._own) / self._batch
        return math.floor(whole) if self.arguments["drop_remainder"] else math.ceil(whole)

    def begin(self) -> None:
        """Whole batches of the slice's elements, in this order."""
        self._next = 0
        self._order: Array = self._rng.permutation(self._own) if self.arguments["shuffle"] else self._own

    def chosen(self) -> tuple[Array, int]:
        """The numbers of the next batch's elements, and how many of them are not there to fill it up. Raises
        StopIteration."""
        if self._next >= self.batches():
            raise StopIteration
        chosen = self._order[self._next * self._batch : (self._next + 1) * self._batch]
        self._next += 1
        whole = len(chosen)
        if missing := self._batch - whole:
            # The last element again, or ones at random.
            pad = self.arguments["pad_remainder"]
            more = np.repeat(chosen[-1:], missing) if pad else self._rng.choice(self._own, missing)
            chosen = np.concatenate((chosen, more))
        return chosen, whole


class ReadImageDatasetFromDir(IndexedReader):
    """Paths of images and their classes: folders of `dir` in alphabetical order, or `file_list` with `class_list` and
    `file_classes` (a name for each file). `format`: the files' suffix. Two outputs: paths, and labels [batch_size]."""

    parameters: ClassVar[Arguments] = {
        **IndexedReader.order,
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
        self.begin_with(len(self._files), pipe)

    @staticmethod
    def _found(folder: Path, suffix: str) -> tuple[list[str], Array]:
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

    def run(self) -> tuple[list[str], Any]:
        chosen, _ = self.chosen()
        return [self._files[n] for n in chosen], cast(self._labels[chosen], self.arguments["label_dtype"])


class FrameworkParams(NamedTuple):
    """What a reader of the script's may ask of its pipe."""

    batch_size: int
    queue_depth: int


class MediaExtReaderOp(Reader):
    """A reader of the script's: `impl`, derived from `media_ext_reader_op_impl`, called with a dict of `priv_params`,
    `batch_size`, `seed` and `num_outputs`, and, where its constructor takes two arguments, with FrameworkParams.

    Its `__len__`, if it has one, is the number of batches.
    """

    parameters: ClassVar[Arguments] = {"impl": None, "num_outputs": 2, "seed": 0, "priv_params": None}
    required = ("impl", "num_outputs")

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.outputs = int(self.arguments["num_outputs"])

    def prepare(self, pipe: MediaPipe) -> None:
        given = {**self.arguments, "batch_size": pipe.get_batch_size()}
        kind = given.pop("impl")
        taken = len(inspect.signature(kind).parameters)
        more = (FrameworkParams(pipe.get_batch_size(), pipe.prefetch_depth),) if taken > 1 else ()
        self._impl = kind(given, *more)

    def batches(self) -> int:
        if not hasattr(self._impl, "__len__"):
            raise self.error(
                f"{type(self._impl).__name__} has no __len__(), so that nobody knows its number of batches"
            )
        return len(self._impl)

    def begin(self) -> None:
        self._items = iter(self._impl)

    def run(self) -> Any:
        found = next(self._items)
        if self.outputs > 1 and len(found) != self.outputs:
            raise self.error(f"the reader gave {len(found)} outputs, num_outputs is {self.outputs}")
        return found


def get_max_file(files: list[str]) -> str:
    """The largest of these files. Raises ValueError for none, FileNotFoundError for one that is not there."""
    if not len(files):
        raise ValueError("get_max_file: got no file")
    return max(files, key=lambda file: Path(file).stat().st_size)
