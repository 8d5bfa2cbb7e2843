"""The reader of COCO's annotation files."""

import json

import numpy as np
import PIL.Image
import pytest

from habana_frameworks.mediapipe import fn
from habana_frameworks.mediapipe.mediapipe import MediaPipe
from habana_frameworks.mediapipe.plugins.iterator_pytorch import HPUSsdPytorchIterator

DOCUMENT = {
    "images": [
        {"id": 7, "file_name": "a.png", "height": 20, "width": 40},
        {"id": 3, "file_name": "none.png", "height": 20, "width": 40},
        {"id": 9, "file_name": "b.png", "height": 10, "width": 10},
    ],
    "categories": [{"id": 5, "name": "cat"}, {"id": 18, "name": "dog"}],
    "annotations": [
        {"image_id": 7, "category_id": 18, "bbox": [10, 5, 20, 10]},
        {"image_id": 9, "category_id": 5, "bbox": [0, 0, 5, 5]},
        {"image_id": 7, "category_id": 5, "bbox": [0, 0, 40, 20]},
    ],
}


@pytest.fixture
def data(tmp_path):
    """The reader's arguments, and what writes the annotation file."""
    for image in DOCUMENT["images"]:
        PIL.Image.new("RGB", (image["width"], image["height"]), (image["id"], 0, 0)).save(tmp_path / image["file_name"])

    def write(document=DOCUMENT):
        (tmp_path / "ann.json").write_text(document if isinstance(document, str) else json.dumps(document))
        return {"root": str(tmp_path), "annfile": str(tmp_path / "ann.json")}

    return write


class Detection(MediaPipe):
    """The pipe of a detector: windows around the boxes, flips, anchors."""

    def __init__(self, batch, **arguments):
        super().__init__("cpu", 1, batch, 1, "detection")
        self.read = fn.CocoReader(**arguments)
        self.windows = fn.SSDCropWindowGen(seed=1)
        self.decode = fn.ImageDecoder(resize=[30, 30])
        self.half = fn.Constant(constant=1.0, dtype="float32")
        self.coin = fn.CoinFlip(seed=1)
        self.flip = fn.RandomFlip(horizontal=1)
        self.flip_boxes = fn.SSDBBoxFlip()
        self.encode = fn.SSDEncode()

    def definegraph(self):
        files, ids, sizes, boxes, labels, lengths, batch = self.read()
        windows, boxes, labels, lengths = self.windows(sizes, boxes, labels, lengths)
        flips = self.coin(self.half())
        images = self.flip(self.decode(files, windows), flips)
        boxes, labels = self.encode(self.flip_boxes(flips, boxes, lengths), labels, lengths)
        return images, ids, sizes, boxes, labels, batch


def outputs(batch=2, **arguments):
    reader = fn.CocoReader(**arguments)
    reader.prepare(MediaPipe("cpu", 1, batch))
    reader.begin()
    return [reader.run() for _ in range(reader.batches())]


def test_images_with_their_objects(data):
    ((files, ids, sizes, boxes, labels, lengths, whole),) = outputs(**data())
    assert [file.rpartition("/")[2] for file in files] == ["a.png", "b.png"]
    assert ids.tolist() == [7, 9]
    assert sizes.tolist() == [[20, 40], [10, 10]]
    assert (boxes.shape, boxes.dtype, labels.shape) == ((2, 200, 4), np.float32, (2, 200))
    assert boxes[0, :2].tolist() == [[0.25, 0.25, 0.75, 0.75], [0, 0, 1, 1]]
    assert labels[0, :3].tolist() == [2, 1, 0]
    assert lengths.tolist() == [2, 1]
    assert whole.tolist() == [2]
    assert not boxes[0, 2:].any()


def test_what_fills_a_batch_up_is_counted(data):
    _, ids, *_, whole = outputs(batch=3, pad_remainder=True, **data())[0]
    assert ids.tolist() == [7, 9, 9]
    assert whole.tolist() == [2]


def test_a_detection_pipe(data):
    iterator = HPUSsdPytorchIterator(Detection(2, **data()))
    ((images, ids, sizes, boxes, labels, whole),) = list(iterator)
    assert images.shape == (2, 30, 30, 3)
    assert [int(image[0, 0, 0]) for image in images] == ids.tolist() == [7, 9]
    assert (boxes.shape, labels.shape) == ((2, 8732, 4), (2, 8732))
    assert {str(one.dtype) for one in (ids, sizes, labels, whole)} == {"torch.int64"}
    assert labels[0].unique().tolist() == [0, 1, 2]
    assert labels[1].unique().tolist() == [0, 1]


def changed(part, number, **values):
    entry = {key: value for key, value in {**DOCUMENT[part][number], **values}.items() if value != "gone"}
    entries = list(DOCUMENT[part])
    entries[number] = entry
    return {**DOCUMENT, part: entries}


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ("{", "annfile .*ann.json can't be read as JSON"),
        ({"images": []}, "ann.json has no list 'annotations'"),
        ({**DOCUMENT, "annotations": []}, "ann.json: no image has an object"),
        (
            changed("annotations", 1, bbox=[0, 0, 5]),
            r"annotations\[1\]: bbox is \[0, 0, 5\]; expected \[x, y",
        ),
        (changed("annotations", 2, bbox=[0, 0, -5, 5]), r"annotations\[2\]: bbox is \[0, 0, -5, 5\]"),
        (changed("annotations", 0, bbox=[0, "x", 5, 5]), r"annotations\[0\]: bbox is"),
        (changed("annotations", 0, bbox="gone"), r"annotations\[0\]: it has no 'bbox'"),
        (changed("annotations", 0, image_id=1), r"annotations\[0\]: image_id 1 is no image of the file"),
        (changed("annotations", 0, category_id=1), r"annotations\[0\]: category_id 1 is no category"),
        (changed("images", 1, width=0), r"images\[1\]: height is 20, width 0; expected whole numbers above 0"),
        (changed("categories", 1, id="gone"), r"categories\[1\]: it has no 'id'"),
    ],
)
def test_bad_files(data, document, text):
    with pytest.raises(ValueError, match=text):
        outputs(**data(document))


def test_an_image_that_is_none_is_named(data, tmp_path):
    arguments = data()
    (tmp_path / "b.png").write_bytes(b"no image")
    with pytest.raises(OSError) as found:
        list(HPUSsdPytorchIterator(Detection(2, **arguments)))
    assert "b.png" in found.value.__notes__[0]
