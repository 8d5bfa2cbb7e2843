"""The example's kernels that a description stands for: values, and what their checks say."""

import pytest
import torch
from torch.nn import functional

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


def test_silu_and_mul(kernels):
    """The kernel of the layer of vLLM, of rows with a rest."""
    x = (torch.randn(3, 2 * 300) * 4).bfloat16()
    y = torch.full((3, 300), 7.0).bfloat16()
    assert kernels.check("silu_and_mul_bf16", [x], [y]).errors == []
    wide = x.float()
    torch.testing.assert_close(y.float(), functional.silu(wide[:, :300]) * wide[:, 300:], rtol=1e-2, atol=1e-3)


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
