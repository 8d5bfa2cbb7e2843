"""ctc_loss_custom: PyTorch's CTC loss and its gradient."""

import pytest
import torch

ops = torch.ops.hpu


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_ctc(native, reduction):
    torch.manual_seed(0)
    log_probs, targets = torch.randn(12, 3, 5).log_softmax(-1), torch.randint(1, 5, (3, 4))
    lengths = torch.tensor([12, 10, 8]), torch.tensor([4, 3, 2])
    wide = log_probs.double().requires_grad_()
    exact = torch.nn.functional.ctc_loss(wide, targets, *lengths, 0, reduction, True)
    grad = torch.randn(exact.shape)
    exact.backward(grad.double())
    number = ("none", "mean", "sum").index(reduction)

    def work(log_probs, targets, inputs, outputs, grad):
        loss, alpha = ops.ctc_loss_custom(log_probs, targets, inputs, outputs, 0, number, True)
        arguments = (log_probs, targets, inputs, outputs, loss, alpha, 0, number, True)
        return loss, ops.ctc_loss_custom_backward(grad, *arguments)

    loss, gradient = native(work, log_probs, targets, *lengths, grad)
    torch.testing.assert_close(loss.double(), exact.detach(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(gradient.double(), wide.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_ctc_without_a_batch(native, number):
    torch.manual_seed(0)
    log_probs, targets = torch.randn(12, 5).log_softmax(-1), torch.randint(1, 5, (4,))
    lengths = torch.tensor(12), torch.tensor(4)
    wide = log_probs.double().requires_grad_()
    exact = torch.nn.functional.ctc_loss(wide, targets, *lengths, 0, ("none", "mean", "sum")[number])
    exact.backward()

    def work(log_probs, targets, inputs, outputs):
        loss, alpha = ops.ctc_loss_custom(log_probs, targets, inputs, outputs, 0, number, False)
        arguments = (log_probs, targets, inputs, outputs, loss, alpha, 0, number, False)
        return loss, ops.ctc_loss_custom_backward(torch.ones_like(loss), *arguments)

    loss, gradient = native(work, log_probs, targets, *lengths)
    assert loss.shape == ()
    torch.testing.assert_close(loss.double(), exact.detach(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(gradient.double(), wide.grad, rtol=1e-4, atol=1e-5)
