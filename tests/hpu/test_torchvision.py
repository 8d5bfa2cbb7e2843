"""torchvision's operators, which reach the device through the fallback of its dispatch key (csrc/call/Registration)."""

import pytest

from tests import vision as vision_files

SCRIPT = """
    import ctypes, sys
    sys.path[:0] = {folders}
    for library in {libraries}:
        ctypes.CDLL(library, ctypes.RTLD_GLOBAL)
    import torch
    from torch.testing import assert_close
    import warnings
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its reading of images does not load
        import torchvision
    import openhpu
    from torchvision import ops
    assert torchvision.extension._has_ops()
    torch.manual_seed(0)
"""

OPERATORS = """
    corners = torch.rand(200, 4) * 50
    boxes = torch.cat([corners[:, :2], corners[:, :2] + corners[:, 2:] + 1], 1)
    scores, classes = torch.rand(200), torch.randint(4, (200,))
    images = torch.rand(2, 8, 20, 20)
    regions = torch.cat([torch.randint(2, (10, 1)), boxes[:10] / 6], 1)
    shifts, weight, mask = torch.rand(2, 18, 18, 18), torch.rand(4, 8, 3, 3), torch.rand(2, 9, 18, 18)
    kept = [
        (lambda *a: ops.nms(*a, 0.3), (boxes, scores)),
        (lambda *a: ops.batched_nms(*a, 0.3), (boxes, scores, classes)),
    ]
    differentiable = [
        (ops.box_iou, (boxes, boxes[:20])),
        (lambda *a: ops.roi_align(*a, (5, 5), 1.0, 2), (images, regions)),
        (lambda *a: ops.roi_pool(*a, (5, 5)), (images, regions)),
        (lambda *a: ops.ps_roi_align(*a, 2, 1.0, 2), (images, regions)),
        (lambda *a: ops.ps_roi_pool(*a, 2), (images, regions)),
        (lambda i, o, w, m: ops.deform_conv2d(i, o, w, mask=m), (images, shifts, weight, mask)),
    ]

    def results(function, arguments, device, backward):
        arguments = [a.detach().to(device).requires_grad_(backward and a.is_floating_point()) for a in arguments]
        result = function(*arguments)
        assert result.device.type == device
        if backward:
            result.sum().backward()
        return [result.detach().cpu()] + [a.grad.cpu() for a in arguments if a.grad is not None]

    for backward, functions in (False, kept + differentiable), (True, differentiable):
        for function, arguments in functions:
            expected = results(function, arguments, "cpu", backward)
            assert len(expected) > backward
            for repetition in range(2):  # learned, then submitted or recorded without waiting
                assert_close(results(function, arguments, "hpu", backward), expected)
    print(openhpu.counters()["ops_fallback"])
"""

DETECTOR = """
    from torchvision.models.detection import fasterrcnn_mobilenet_v3_large_320_fpn as detector
    torch.set_default_dtype(torch.float64)  # scores of random weights differ by less than float32's rounding
    model = detector(weights=None, weights_backbone=None, box_score_thresh=0.0, box_detections_per_img=20).eval()
    images = [torch.rand(3, 120, 160), torch.rand(3, 160, 120)]
    with torch.no_grad():
        expected = model(images)
        found = model.to("hpu")([image.to("hpu") for image in images])
    assert all(value.device.type == "hpu" for image in found for value in image.values())
    found = [{name: value.cpu() for name, value in image.items()} for image in found]
    assert_close(found, expected)
    print(len(found[0]["boxes"]))
"""


COMPILED = """
    boxes, scores = torch.rand(50, 4).sort().values, torch.rand(50)
    images, regions = torch.rand(1, 4, 12, 12), torch.tensor([[0.0, 1.0, 2.0, 8.0, 9.0]])
    for function, arguments in (
        (lambda b, s: ops.nms(b, s, 0.3), (boxes, scores)),
        (lambda i, r: ops.roi_align(i * 2, r, (5, 5), 1.0, 2) + 1, (images, regions)),
    ):
        compiled = torch.compile(function, backend="hpu_backend")
        for repetition in range(2):
            assert_close(compiled(*[a.to("hpu") for a in arguments]).cpu(), function(*arguments))
    print("ok")
"""


@pytest.fixture(scope="module")
def vision(tmp_path_factory):
    """The beginning of a script that uses torchvision."""
    folder = vision_files.folder()
    if folder is None:
        pytest.skip(vision_files.MISSING)
    libraries = vision_files.empty_libraries(folder / "torchvision" / "_C.so", tmp_path_factory.mktemp("empty"))
    return SCRIPT.format(folders=[str(folder)] if folder == vision_files.DOWNLOADED else [], libraries=libraries)


def test_its_operators_and_their_gradients_equal_the_cpus(vision, script):
    assert script(vision + OPERATORS, bare=True).out == "0"


def test_a_detection_model_finds_the_same_boxes(vision, script):
    assert script(vision + DETECTOR, bare=True, warnings="default").out == "20"


def test_its_operators_are_compiled(vision, script):
    assert script(vision + COMPILED, bare=True, warnings="default").out == "ok"
