"""Products in bfloat16 with a result in float32."""

import pytest
import torch


@pytest.mark.parametrize("shapes", [((5, 8), (8, 3)), ((2, 4, 5, 8), (2, 4, 8, 3)), ((2, 1, 2, 5, 8), (2, 2, 1, 8, 3))])
def test_a_result_in_float32(shapes):
    a, b = (torch.randn(shape, dtype=torch.bfloat16) for shape in shapes)
    expected = a.double() @ b.double()
    out = torch.empty(expected.shape, device="hpu")
    assert torch.matmul(a.to("hpu"), b.to("hpu"), out=out) is out
    torch.testing.assert_close(out.cpu().double(), expected, rtol=1e-5, atol=1e-5)


def test_in_one_dtype_it_is_as_it_was():
    a, b = torch.randn(5, 8, device="hpu"), torch.randn(8, 3, device="hpu")
    out = torch.empty(5, 3, device="hpu")
    torch.testing.assert_close(torch.matmul(a, b, out=out).cpu(), a.cpu() @ b.cpu())
    assert torch.equal(out, a @ b)
