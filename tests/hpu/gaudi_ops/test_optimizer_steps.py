"""Steps of optimizers that no class of hpex takes, against PyTorch's optimizers in float64."""

import pytest
import torch

from tests.hpu.support import close

ops = torch.ops.hpu
SHAPES = [(5,), (2, 3)]
RATE = 0.1


def tensors():
    return [torch.randn(shape) for shape in SHAPES]


def number(value):
    return torch.tensor([value])


def expected_steps(weights, gradients, **options):
    """The weights after a step of torch.optim.SGD for each list of gradients."""
    parameters = [weight.double().requires_grad_() for weight in weights]
    optimizer = torch.optim.SGD(parameters, lr=RATE, **options)
    found = []
    for each in gradients:
        for parameter, gradient in zip(parameters, each, strict=True):
            parameter.grad = gradient.double()
        optimizer.step()
        found.append([parameter.detach().clone() for parameter in parameters])
    return found


@pytest.mark.parametrize("name", ["optimizer_sgd", "habanaOptimizerSgd"])
@pytest.mark.parametrize("decay", [0.0, 0.02])
def test_sgd(native, name, decay):
    weights, gradients = tensors(), tensors()
    (expected,) = expected_steps(weights, [gradients], weight_decay=decay)

    def work(gradients, weights):
        getattr(ops, name)(gradients, weights, number(RATE).to("hpu"), decay, 0.0, 0.0, False)
        return weights

    close(native(work, gradients, [weight.clone() for weight in weights]), expected)


@pytest.mark.parametrize("name", ["optimizer_sgd_momentum", "habanaOptimizerSgdMomentum"])
@pytest.mark.parametrize(("damp", "nesterov"), [(0.0, False), (0.3, False), (0.0, True)])
def test_sgd_with_momentum(native, name, damp, nesterov):
    """In epoch 0 the buffers begin as the gradients, whatever they hold; later they decay."""
    weights, gradients = tensors(), [tensors(), tensors()]
    options = {"momentum": 0.9, "dampening": damp, "nesterov": nesterov, "weight_decay": 0.02}
    expected = expected_steps(weights, gradients, **options)

    def work(gradients, weights, buffers):
        found = []
        for epoch, each in enumerate(gradients):
            numbers = [number(value).to("hpu") for value in (float(epoch), RATE, 0.9)]
            getattr(ops, name)(each, weights, buffers, *numbers, 0.02, damp, nesterov)
            found.append([weight.clone() for weight in weights])
        return found

    garbage = [torch.full(shape, 7.0) for shape in SHAPES]
    close(native(work, gradients, [weight.clone() for weight in weights], garbage), expected)


def trust(weight, gradient, decay=0.02, eeta=0.5, eps=1e-6):
    norm = weight.norm()
    return eeta * norm / (gradient.norm() + decay * norm + eps)


@pytest.mark.parametrize("lazy", [False, True])
def test_lars_scales_each_gradient_by_its_own_trust(native, lazy):
    weights, gradients = tensors(), tensors()

    def work(weights, gradients):
        rate = number(RATE).to("hpu")
        if lazy:
            ops.habanaOptimizerLars(weights, gradients, rate, [1, 0], 0.5, 0.02, 1e-6)
        else:
            ops.optimizer_lars(weights, gradients, [1, 0], 0.5, 0.02, 1e-6, rate)
        return gradients

    found = native(work, weights, [gradient.clone() for gradient in gradients])
    weight, gradient = weights[0].double(), gradients[0].double()
    scaled = RATE * trust(weight, gradient) * (gradient + 0.02 * weight)
    close(found, [scaled, RATE * gradients[1].double()])


@pytest.mark.parametrize("name", ["optimizer_ema", "habanaOptimizerFusedEMA"])
def test_moving_averages(native, name):
    values, averages = tensors(), tensors()

    def work(values, averages):
        getattr(ops, name)(values, averages, number(0.75).to("hpu"))
        return averages

    expected = [0.75 * a.double() + 0.25 * v.double() for a, v in zip(averages, values, strict=True)]
    close(native(work, values, [average.clone() for average in averages]), expected)


@pytest.mark.parametrize("name", ["optimizer_adamw", "habanaOptimizerAdamW", "lazy"])
@pytest.mark.parametrize("decay", [1.0, 0.98])
def test_adamw(everywhere, name, decay):
    """`lazy`: the factor of the weights is a number, 1 for none."""
    gradients, weights, first, second = (tensors() for _ in range(4))
    second = [each.square() for each in second]
    operator = ops.optimizer_adamw if name == "lazy" else getattr(ops, name)
    more = (decay,) if name == "lazy" else (number(decay), decay != 1.0)

    def work(lists, *more):
        copies = [[each.clone() for each in given] for given in lists]
        operator(*copies, *more)
        return copies[1:]

    found = everywhere(work, [gradients, weights, first, second], number(-RATE), 0.9, 0.99, 1e-6, *more)
    average = [0.9 * m.double() + 0.1 * g.double() for m, g in zip(first, gradients, strict=True)]
    square = [0.99 * v.double() + 0.01 * g.double().square() for v, g in zip(second, gradients, strict=True)]
    new = [decay * w.double() - RATE * m / (v.sqrt() + 1e-6) for w, m, v in zip(weights, average, square, strict=True)]
    close(found, [new, average, square])
