"""Softmaxes, against formulas in float64, and the CTC loss, against PyTorch's."""

import math

import pytest
import torch

from tests.hpu.support import causal, close, wide

ops = torch.ops.hpu


def softmax(x, seen=None):
    """Over the last dimension; a row that sees nothing is 0."""
    return torch.softmax(x if seen is None else x.masked_fill(~seen, -math.inf), -1).nan_to_num()


@pytest.fixture
def x():
    return torch.randn(4, 2, 5, 5)


@pytest.mark.parametrize("boolean", [False, True])
def test_masked(everywhere, x, boolean):
    mask = torch.rand(4, 1, 5, 5) > 0.3 if boolean else torch.randn(4, 1, 5, 5)
    mask[..., 0] = True
    expected = softmax(x.double() * 0.5, mask) if boolean else softmax(x.double() * 0.5 + mask.double())
    close(everywhere(lambda x, m: ops.scaled_masked_softmax(x, m, 0.5), x, mask), expected)


def test_triangular_in_two_steps(everywhere, x):
    def work(x):
        y, reciprocal, maximum = ops.scaled_triangular_softmax_retain(x, 0.5)
        return ops.scaled_triangular_softmax(x, 0.5), y, ops.scaled_triangular_softmax(x, 0.5, reciprocal, maximum)

    expected = softmax(x.double() * 0.5, causal(5))
    for result in everywhere(work, x):
        close(result, expected)


@pytest.mark.parametrize("rows", [5, 1])
def test_triangular_within_sequences(native, x, rows):
    """One row is the last position: it sees all columns of its sequence."""
    start_end = torch.tensor([[0, 3], [2, 5]])
    columns = torch.arange(5)
    inside = (columns >= start_end[:, :1]) & (columns < start_end[:, 1:])
    seen = inside.repeat_interleave(2, 0)[:, None, None] & causal(5)[-rows:]
    x = x[..., -rows:, :]
    y = native(lambda x, s: ops.scaled_masked_triangular_softmax(x, s, 0.5, 2, True, 0, torch.float32), x, start_end)
    close(y, softmax(x.double() * 0.5, seen))


def test_custom_and_ragged(native, x):
    close(native(lambda x: ops.custom_softmax(x, 1), x), softmax(x.double()))
    counts = torch.tensor([1, 5, 3, 2])
    valid = torch.arange(5) < counts.reshape(4, 1, 1, 1)
    close(native(lambda x, c: ops.ragged_softmax(x, -1, False, c), x, counts), softmax(x.double(), valid))


def test_blocks_add_up_to_the_attention_of_their_sequence(everywhere):
    attn, bias, value = torch.randn(5, 2, 1, 1, 4), torch.randn(5, 1, 1, 1, 4), torch.randn(5, 2, 1, 4, 3)
    groups = torch.tensor([0, 1, 0, -1, 1])

    def work(attn, bias, value, groups):
        e, maximum, sums = ops.block_softmax(attn, bias, groups)
        return (e @ value) * ops.block_softmax_adjustment(maximum, sums, groups, 2, [5, 2, 1, 1, 1])

    y = everywhere(work, attn, bias, value, groups).double()
    for sequence in (0, 1):
        blocks = (groups == sequence).nonzero().flatten()
        scores = torch.cat([(attn + bias)[b] for b in blocks], -1).double()
        exact = torch.softmax(scores, -1) @ torch.cat([value[b] for b in blocks], -2).double()
        close(y[blocks].sum(0), exact)


@pytest.mark.parametrize("batch", [True, False])
@pytest.mark.parametrize(("number", "reduction"), [(0, "none"), (1, "mean"), (2, "sum")])
def test_ctc(native, number, reduction, batch):
    log_probs, targets = torch.randn(12, 3, 5).log_softmax(-1), torch.randint(1, 5, (3, 4))
    lengths = torch.tensor([12, 10, 8]), torch.tensor([4, 3, 2])
    if not batch:
        log_probs = log_probs[:, 0]
        targets = targets[0]
        lengths = [numbers[0] for numbers in lengths]
    x = wide(log_probs)
    exact = torch.nn.functional.ctc_loss(x, targets, *lengths, 0, reduction, batch)
    grad = torch.randn(exact.shape)
    exact.backward(grad.double())

    def work(log_probs, targets, inputs, outputs, grad):
        loss, alpha = ops.ctc_loss_custom(log_probs, targets, inputs, outputs, 0, number, batch)
        arguments = (log_probs, targets, inputs, outputs, loss, alpha, 0, number, batch)
        return loss, ops.ctc_loss_custom_backward(grad, *arguments)

    close(native(work, log_probs, targets, *lengths, grad), (exact, x.grad), 1e-4, 1e-5)
