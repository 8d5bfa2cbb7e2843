"""quantized_decomposed's operators, bit for bit round(x / scale) + zero_point in float32, clamped; fp8: the cast's."""

import pytest
import torch
import torch.ao.quantization.fx._decomposed

ops = torch.ops.quantized_decomposed
E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
BOUNDS = {
    torch.int8: (-128, 127), torch.uint8: (0, 255), torch.int16: (-32768, 32767), torch.int32: (-(2**20), 2**20),
    E4M3: (-240, 240), E5M2: (-57344, 57344),
}  # fmt: skip


def formula(x, scale, zero, dtype):
    divided = x.float() / scale
    return ((divided if dtype in (E4M3, E5M2) else torch.round(divided)) + zero).clamp(*BOUNDS[dtype]).to(dtype)


def bits(x):
    return x.view(torch.uint8) if x.dtype in (E4M3, E5M2) else x


def beside_ties(scale):
    """Numbers at and beside the middle between two multiples of the scale."""
    middles = (torch.arange(-100, 100) + 0.5) * scale
    return torch.cat([torch.nextafter(middles, torch.tensor(side)) for side in (-1e9, 1e9)] + [middles])


@pytest.mark.parametrize("given", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("form", ["numbers", "tensors", "bounds"])
@pytest.mark.parametrize("dtype", BOUNDS)
def test_per_tensor(native, dtype, form, given):
    scale = torch.tensor(0.3)
    zero = 0 if dtype.is_floating_point else 5
    x = beside_ties(scale).to(given)
    low, high = BOUNDS[dtype]
    settings = (scale.item(), zero) if form == "numbers" else (scale, torch.tensor(zero))
    bounds = (torch.tensor(low), torch.tensor(high)) if form == "bounds" else (low, high)

    def both(x, *settings):
        y = ops.quantize_per_tensor(x, *settings, dtype)
        return y, ops.dequantize_per_tensor(y, *settings, dtype)

    y, back = native(both, x, *settings, *bounds)
    expected = formula(x, scale, zero, dtype)
    assert torch.equal(bits(y), bits(expected))
    assert torch.equal(back, (expected.float() - zero) * scale)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("one", [False, True])
def test_per_channel(native, dtype, axis, one):
    x = torch.randn(5, 5) * 20
    scales = torch.rand(5) + 0.1
    zeros = torch.zeros(5, dtype=torch.int64) if dtype.is_floating_point else torch.randint(0, 9, (5,))

    if one:  # a zero point for all channels, as Neural Compressor has it
        zeros = zeros[0].float()

    def both(x, scales, zeros):
        y = ops.quantize_per_channel(x, scales, zeros, axis, *BOUNDS[dtype], dtype)
        return y, ops.dequantize_per_channel(y, scales, zeros, axis, *BOUNDS[dtype], dtype, out_dtype=torch.bfloat16)

    y, back = native(both, x, scales, zeros)
    columns = (scales, zeros)
    if axis == 0:
        columns = (scales[:, None], zeros if one else zeros[:, None])
    expected = formula(x, *columns, dtype)
    assert torch.equal(bits(y), bits(expected))
    assert torch.equal(back, ((expected.float() - columns[1]) * columns[0]).to(torch.bfloat16))


def test_numbers_between_whole_ones_stay_in_fp8():
    x = torch.tensor([0.3125, -1.75, 13.0, 500.0], device="hpu")
    assert ops.quantize_per_tensor(x, 1.0, 0, -240, 240, E4M3).float().tolist() == [0.3125, -1.75, 13.0, 240.0]


def test_nothing_is_read_on_the_host(counted):
    x, scale, zero = torch.ones(4, device="hpu"), torch.tensor(0.5, device="hpu"), torch.tensor(1, device="hpu")
    with counted(blocking_reads=0):
        ops.quantize_per_tensor.tensor(x, scale, zero, -128, 127, torch.int8)
