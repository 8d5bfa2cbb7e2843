"""The example's kernels that a description stands for: values, and what their checks say."""

import pytest

from openhpu_tpc.loading import Library
from tests.tpc import planted
from tests.tpc.libraries import built

FOLDER = planted.EXAMPLES / "described"
GUIDS = {
    "attention": "attention_weights_f32",
    "quantize": "quantize_f8",
    "scan": "scan_f32",
    "gather": "gather_f32",
}


@pytest.fixture(scope="module")
def kernels():
    return Library(built({path.name: path.read_text() for path in sorted(FOLDER.iterdir())}, checks=True))


@pytest.mark.parametrize("name", GUIDS)
def test_values_and_checks(kernels, name):
    assert planted.found(kernels, name, GUIDS[name]) == ([], False)


def test_a_hundred_faults_fit_their_kernels():
    assert len(planted.KERNELS) == 10
    for kernel in planted.KERNELS.values():
        assert len(kernel.faults) == 10
        for number in range(10):
            assert planted.changed(kernel, number) != planted.changed(kernel, -1)


def test_planted_faults_are_found(tmp_path):
    library = planted.built("scan", [0, 4], tmp_path)
    assert planted.found(library, "scan", "k0") == ([], False)
    assert planted.found(library, "scan", "k1") == ([], True)
    errors, _ = planted.found(library, "scan", "k5")
    assert any("k5.c:17: store outside the pattern: member (1) stores out1[0, 0]" in error for error in errors), errors
