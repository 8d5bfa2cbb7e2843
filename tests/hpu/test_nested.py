"""Nested tensors, strided and jagged: the same as on the CPU."""

import warnings

import pytest
import torch
import torch.nn.functional as F

from tests.hpu.support import agree, heard, to_cpu

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors is in prototype")


def components(width):
    torch.manual_seed(0)
    return [torch.randn(n, width) for n in (2, 5, 3)]


STRIDED = {
    "to_padded_tensor": lambda x: torch.nested.to_padded_tensor(x, -1.0),
    "to_padded_tensor of a size": lambda x: torch.nested.to_padded_tensor(x, 0.5, (3, 6, 4)),
    "bmm": lambda x: torch.bmm(x, x.transpose(1, 2)),
    "matmul": lambda x: torch.matmul(x, x.transpose(1, 2)),
    "linear": lambda x: F.linear(x, torch.ones(5, 4, device=x.device)),
    "softmax": lambda x: x.softmax(-1),
    "sum": lambda x: x.sum(-1, keepdim=True),
    "layer_norm": lambda x: F.layer_norm(x, (4,), torch.ones(4, device=x.device), torch.zeros(4, device=x.device)),
    "relu, add, mul": lambda x: (x.relu() + x) * 2,
    "to the device and back": lambda x: x.cpu().to(x.device),
}


# What PyTorch differentiates on no device.
ONLY_FORWARD = {"to_padded_tensor of a size", "strided attention", "sum of jagged", "mean over the ragged dimension"}


def test_out_of_dense_tensors():
    def parts(x, mask):
        nested = torch._nested_tensor_from_mask(x, mask)
        padded = torch._nested_from_padded(x, torch.tensor([[3, 2], [1, 4]]))
        assert nested.device == padded.device == x.device
        return *nested.unbind(), *padded.unbind()

    agree(parts, torch.arange(24.0).view(2, 3, 4), torch.tensor([[True, True, False], [True, False, False]]))


def test_what_runs_on_the_host_says_so():
    nested = torch.nested.as_nested_tensor([part.to("hpu") for part in components(4)])
    assert nested._nested_tensor_storage_offsets().tolist() == [0, 8, 28]
    assert not nested.is_pinned()
    with heard("cpu_fallback") as seen:
        torch.nested.to_padded_tensor(nested, 0.0)
        assert not seen
        nested.sum(-1, keepdim=True)
    assert [event.params["op"] for event in seen] == ["aten::sum.dim_IntList"]


def attention(x, **options):
    heads = x.unflatten(-1, (2, 4)).transpose(1, 2)
    return F.scaled_dot_product_attention(heads, heads, heads, **options).transpose(1, 2).flatten(-2)


def strided_attention(x):
    heads = x.view(x.size(0), -1, 2, 4).transpose(1, 2).contiguous()
    return F.scaled_dot_product_attention(heads, heads, heads).transpose(1, 2)


JAGGED = {
    "attention": attention,
    "attention with a scale": lambda x: attention(x, scale=0.3),
    "linear": lambda x: F.linear(x, torch.ones(5, 8, device=x.device)),
    "to_padded_tensor": lambda x: torch.nested.to_padded_tensor(x, -1.0),
    "softmax": lambda x: x.softmax(-1),
    "sum of jagged": lambda x: x.sum(-1),
    "mean over the ragged dimension": lambda x: x.mean(1),
    "norm": lambda x: F.layer_norm(x, (8,)),
}


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize(
    ("layout", "name", "work", "width"),
    [(torch.strided, name, work, 4) for name, work in STRIDED.items()]
    + [(torch.jagged, name, work, 8) for name, work in JAGGED.items()]
    + [(torch.strided, "strided attention", strided_attention, 8)],
)
def test_both_devices_agree(layout, name, work, width, requires_grad):
    """What `work` gives for a nested tensor of each device, and the gradient of its values' sum."""
    results = []
    for device in ("cpu", "hpu"):
        backward = requires_grad and name not in ONLY_FORWARD
        parts = [part.to(device).requires_grad_(backward) for part in components(width)]
        nested = torch.nested.as_nested_tensor(parts, layout=layout)
        result = work(nested)
        assert nested.device.type == result.device.type == device
        values = list(result.unbind()) if result.is_nested else [result]
        if backward:
            sum((v * v).sum() for v in values).backward()
        results.append(to_cpu([values, [part.grad for part in parts]]))
    torch.testing.assert_close(results[1], results[0])


def test_jagged_attention_under_autocast():
    x = torch.nested.as_nested_tensor([part.to("hpu") for part in components(8)], layout=torch.jagged)
    with torch.autocast("hpu", torch.bfloat16):
        out = attention(x)
    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.values().float(), attention(x).values(), rtol=0.05, atol=0.05)


def test_an_encoder_with_padding():
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = torch.nn.TransformerEncoder(layer, 2).eval()
        x, mask = torch.randn(2, 4, 8), torch.zeros(2, 4, dtype=torch.bool)
        mask[1, 2:] = True
        with torch.no_grad():
            expected = model(x, src_key_padding_mask=mask)
            actual = model.to("hpu")(x.to("hpu"), src_key_padding_mask=mask.to("hpu")).cpu()
    torch.testing.assert_close(actual[~mask], expected[~mask])
