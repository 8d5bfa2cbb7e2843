"""The operators on boxes of objects."""

import numpy as np
import pytest

from habana_frameworks.mediapipe import fn
from habana_frameworks.mediapipe.mediapipe import MediaPipe
from media_pipe_api import MetadataOps
from openhpu.interface.media import boxes as media_boxes


def padded(*images):
    """Boxes [images, 200, 4] and lengths."""
    made = np.zeros((len(images), 200, 4), np.float32)
    for n, own in enumerate(images):
        made[n, : len(own)] = np.reshape(own, (-1, 4))
    return made, np.array([len(own) for own in images], np.uint32)


def test_boxes_are_mirrored_where_it_is_asked_for():
    boxes, lengths = padded([[0.1, 0.2, 0.4, 0.5], [0, 0, 1, 1]], [[0.1, 0.2, 0.4, 0.5]])
    made = fn.SSDBBoxFlip().run(np.array([1, 0], np.uint8), boxes, lengths)
    np.testing.assert_allclose(made[0, :2], [[0.6, 0.2, 0.9, 0.5], [0, 0, 1, 1]], rtol=1e-6)
    assert (made[1] == boxes[1]).all()
    assert not made[0, 2:].any()


def test_a_window_has_the_middle_of_each_box():
    node = fn.SSDCropWindowGen(seed=3, num_iterations=200)
    node.prepare(MediaPipe("cpu", 1, 20))
    boxes, lengths = padded(*[[[0.3, 0.3, 0.8, 0.7], [0.4, 0.2, 0.7, 0.8]]] * 19, [])
    labels = np.ones((20, 200), np.uint32)
    windows, made, same, counts = node.run(np.zeros((20, 2)), boxes, labels, lengths)
    assert same is labels
    assert counts is lengths
    left, top, width, height = windows.T
    assert ((windows >= 0) & (windows <= 1)).all()
    assert (left + width <= 1 + 1e-6).all()
    assert (top + height <= 1 + 1e-6).all()
    smaller = width < 1
    assert 3 < smaller.sum() < 20
    ratio = width / height
    assert (ratio > 0.49).all()
    assert (ratio < 2.01).all()
    # Back in the image they are the boxes as far as these lie in the window.
    scale = np.stack((width, height, width, height), 1)[:, None]
    offset = np.stack((left, top, left, top), 1)[:, None]
    corners = np.stack((left, top, left + width, top + height), 1)
    expected = np.clip(boxes[:, :2], np.tile(corners[:, None, :2], 2), np.tile(corners[:, None, 2:], 2))
    np.testing.assert_allclose(made[:19, :2] * scale[:19] + offset[:19], expected[:19], atol=1e-5)
    middle = (boxes[0, :2, :2] + boxes[0, :2, 2:]) / 2
    assert (middle[None] > corners[:19, None, :2]).all()
    assert (middle[None] < corners[:19, None, 2:]).all()
    assert windows[19].tolist() == [0, 0, 1, 1]


def test_anchors_are_those_that_were_published():
    found = media_boxes.anchors()
    assert found.shape == (8732, 4)
    np.testing.assert_allclose(found[0], [0.5 * 8 / 300, 0.5 * 8 / 300, 21 / 300, 21 / 300], rtol=1e-6)
    np.testing.assert_allclose(found[-4], [0.5, 0.5, 261 / 300, 261 / 300], rtol=1e-6)


def test_objects_go_to_the_anchors_that_overlap_them():
    anchors = media_boxes.anchors()
    exact = media_boxes.corners(anchors[[2000, 8600]])
    tiny = np.array([[0.5, 0.5, 0.501, 0.501]], np.float32)
    boxes, lengths = padded(np.concatenate((exact, tiny)), [])
    labels = np.zeros((2, 200), np.uint32)
    labels[0, :3] = 4, 5, 6
    made, numbers = fn.SSDEncode().run(boxes, labels, lengths)
    assert (numbers[0, 2000], numbers[0, 8600]) == (4, 5)
    np.testing.assert_allclose(made[0, 2000], anchors[2000], atol=1e-6)
    (nearest,) = np.flatnonzero(numbers[0] == 6)
    np.testing.assert_allclose(made[0, nearest], [0.5005, 0.5005, 0.001, 0.001], atol=1e-6)
    overlaps = media_boxes.overlaps(exact, media_boxes.corners(anchors))
    others = np.flatnonzero((overlaps.max(0) > 0.5) & (numbers[0] != 6))
    assert (numbers[0, others] == np.array([4, 5])[overlaps[:, others].argmax(0)]).all()
    assert (np.flatnonzero(numbers[0]) == np.union1d(others, nearest)).all()
    assert not numbers[1].any()
    assert (made[1] == anchors).all()


@pytest.mark.parametrize("kinds", [("crop", "flip", "encode"), ("crop", "encode"), ("flip",), ("encode",)])
def test_operators_in_one(kinds):
    """SSDMetadata computes what the operators that it lists compute one after the other."""
    boxes, lengths = padded([[0.2, 0.2, 0.8, 0.8], [0.25, 0.2, 0.8, 0.9]], [[0.3, 0.2, 0.9, 0.9]])
    labels = np.zeros((2, 200), np.uint32)
    labels[0, :2], labels[1, 0] = (4, 5), 6
    ids, sizes, flip = np.array([3, 9]), np.full((2, 2), 300), np.array([1, 0], np.uint8)
    serialize = [getattr(MetadataOps, kind) for kind in kinds]
    node = fn.SSDMetadata(workers=1, serialize=serialize, cropping_iterations=100, seed=5)
    node.prepare(MediaPipe("cpu"))
    given = (flip,) if "flip" in kinds else ()
    found = node.run(ids, sizes, boxes, labels, lengths, *given)
    assert len(found) == node.outputs == 5 + ("crop" in kinds)
    expected = []
    if "crop" in kinds:
        crop = fn.SSDCropWindowGen(num_iterations=100, seed=5)
        crop.prepare(MediaPipe("cpu"))
        windows, boxes, labels, lengths = crop.run(sizes, boxes, labels, lengths)
        assert (windows != [0, 0, 1, 1]).any()
        expected.append(windows)
    if "flip" in kinds:
        boxes = fn.SSDBBoxFlip().run(flip, boxes, lengths)
    if "encode" in kinds:
        boxes, labels = fn.SSDEncode().run(boxes, labels, lengths)
    expected += [ids, sizes, boxes, labels, lengths]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_one_operator_that_lacks_something():
    with pytest.raises(
        ValueError, match=r"SSDMetadata: serialize is \['encode', 'crop'\]; expected some of MetadataOps"
    ):
        fn.SSDMetadata(serialize=[MetadataOps.encode, MetadataOps.crop])
    five = fn.CocoReader(root=".", annfile="none")()[1:6]
    with pytest.raises(TypeError, match="needs a sixth input, flip: serialize has MetadataOps"):
        fn.SSDMetadata()(*five)
    with pytest.raises(TypeError, match="got a sixth input, flip, but serialize has no"):
        fn.SSDMetadata(serialize=[MetadataOps.encode])(*five, five[0])
    assert len(fn.SSDMetadata(serialize=[MetadataOps.encode])(*five)) == 5


@pytest.mark.parametrize(
    ("run", "text"),
    [
        (lambda boxes, lengths: fn.SSDBBoxFlip().run([1], boxes[0], lengths), "got boxes of the shape .200, 4. and 1"),
        (lambda boxes, lengths: fn.SSDBBoxFlip().run([1], boxes, [201]), "lengths are .201.; expected numbers from 0"),
        (lambda boxes, lengths: fn.SSDBBoxFlip().run([1, 0], boxes, lengths), "is_flip has 2 numbers, the batch 1"),
    ],
)
def test_bad_input(run, text):
    with pytest.raises(ValueError, match=text):
        run(*padded([[0, 0, 1, 1]]))
