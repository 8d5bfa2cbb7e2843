"""ctc_loss_custom: PyTorch's CTC loss and its gradient."""

import pytest
import torch

from tests.hpu.support import close, wide

ops = torch.ops.hpu


@pytest.mark.parametrize("batch", [True, False])
@pytest.mark.parametrize(("number", "reduction"), [(0, "none"), (1, "mean"), (2, "sum")])
def test_ctc(native, number, reduction, batch):
    log_probs, targets = torch.randn(12, 3, 5).log_softmax(-1), torch.randint(1, 5, (3, 4))
    lengths = torch.tensor([12, 10, 8]), torch.tensor([4, 3, 2])
    if not batch:
        log_probs, targets, lengths = log_probs[:, 0], targets[0], [numbers[0] for numbers in lengths]
    x = wide(log_probs)
    exact = torch.nn.functional.ctc_loss(x, targets, *lengths, 0, reduction, batch)
    grad = torch.randn(exact.shape)
    exact.backward(grad.double())

    def work(log_probs, targets, inputs, outputs, grad):
        loss, alpha = ops.ctc_loss_custom(log_probs, targets, inputs, outputs, 0, number, batch)
        arguments = (log_probs, targets, inputs, outputs, loss, alpha, 0, number, batch)
        return loss, ops.ctc_loss_custom_backward(grad, *arguments)

    close(native(work, log_probs, targets, *lengths, grad), (exact, x.grad), 1e-4, 1e-5)
