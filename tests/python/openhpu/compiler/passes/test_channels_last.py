"""The layout of what convolutions take."""

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

from openhpu.compiler.inductor import inductor
from openhpu.compiler.passes.channels_last import channels_last

X, W = torch.rand(2, 3, 6, 6), torch.rand(4, 3, 3, 3)


def traced(function, *inputs):
    return make_fx(function, tracing_mode="fake", decomposition_table=inductor.decompositions())(*inputs)


def conversions(graph):
    import torch._inductor.inductor_prims

    return graph.graph.find_nodes(op="call_function", target=torch.ops.prims.inductor_force_stride_order.default)


def training(x, w, v):
    return torch.autograd.grad(F.conv2d(F.conv2d(x, w, padding=1).relu(), v).sum(), (w, v))


def test_each_operand_is_converted_once_for_forward_and_backward():
    inputs = X, W.clone().requires_grad_(), torch.rand(5, 4, 3, 3).requires_grad_()
    graph = traced(training, *inputs)
    # The image, two weights, the hidden tensor, and the gradients of both convolutions' results.
    assert channels_last(graph) == 6
    graph.graph.lint()
    graph.recompile()
    converted = [node.args[0] for node in conversions(graph)]
    assert len(set(converted)) == len(converted) == 6 + 2  # and the two results, back
    torch.testing.assert_close(graph(*inputs), training(*inputs), check_stride=True)


def test_generated_code_reads_one_copy():
    """Users that are no convolutions take the converted tensor, too."""

    def work(x, w):
        h = x.sin()
        return h.sum(), F.conv2d(h, w).sum()

    graph = traced(work, X, W)
    channels_last(graph)
    (sine,) = graph.graph.find_nodes(op="call_function", target=torch.ops.aten.sin.default)
    assert [user.target for user in sine.users] == [torch.ops.prims.inductor_force_stride_order.default]


@pytest.mark.parametrize(("dynamic", "converted"), [((0,), 2), ((0, 2, 3), 0)], ids=["batch", "images"])
def test_sizes_that_change(dynamic, converted):
    """The layout of images of any size is left to Inductor."""
    mode = FakeTensorMode(shape_env=ShapeEnv())

    def fake(tensor, dynamic):
        sizes = [DimDynamic.DYNAMIC if k in dynamic else DimDynamic.STATIC for k in range(4)]
        return mode.from_tensor(tensor, symbolic_context=StatelessSymbolicContext(dynamic_sizes=sizes))

    graph = traced(lambda x, w: (F.conv2d(x.sin(), w),), fake(X, dynamic), fake(W, ()))
    assert channels_last(graph) == converted
    graph.graph.lint()


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: F.conv2d(x.sin(), w).as_strided((2, 2), (3, 1)),
        lambda x, w: F.conv_transpose2d(x.sin(), w.transpose(0, 1)),
        lambda x, w: F.conv2d(x.double().sin(), w.double()),
        lambda x, w: F.conv1d(x[:, 0].sin(), w[:, :1, 0].expand(4, 6, 3)),
        lambda x, w: x.sin(),
    ],
    ids=["by memory", "transposed", "double", "one dimension", "no convolution"],
)
def test_what_is_left_as_it_is(function):
    graph = traced(lambda x, w: (function(x, w),), X, W)
    before = graph.code
    assert channels_last(graph) == 0
    graph.recompile()
    assert graph.code == before


def test_inputs_looked_at_by_memory_are_read_in_place():
    """A recipe's inputs may come as views of their memory; only what is computed from a convolution must not."""

    def function(x, w):
        image = x.as_strided((2, 3, 6, 5), (90, 1, 15, 3))
        return F.conv2d(image.relu(), w), F.conv2d(image, w).sum(), image.sum()

    x = torch.rand(200)
    graph = traced(function, x, W)
    assert channels_last(graph) == 3
    graph.recompile()
    (view,) = graph.graph.find_nodes(op="call_function", target=torch.ops.aten.as_strided.default)
    assert len(conversions(graph)) == 3 + 1
    assert len(view.users) == 3  # the conversion, relu and the sum
    torch.testing.assert_close(graph(x, W), function(x, W), check_stride=True)
