"""torch.jit.trace and torch.jit.script: what they record on hpu is a function of its input, as on the CPU device."""

import copy
import inspect
import itertools

import pytest
import torch
from torch import nn
from torch.testing._internal.common_modules import module_db
from torch.utils._pytree import tree_map_only
from torchgen.packaged.autograd.gen_trace_type import DONT_RECORD_TRACE

from tests.conformance.transfer import tensors_of

pytestmark = pytest.mark.filterwarnings("ignore")  # of the tracer, of modules, and of torch.jit as a whole
F = nn.functional

# PyTorch's tracer records these by their parts. Those that make their own kind of tensor have no trace on any device.
UNTRACED = {
    "convolution": lambda x: torch.convolution(
        x.view(-1, 2, 3, 4), _w(x, 3, 2, 2, 2), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1
    ),
    "conv1d": lambda x: F.conv1d(x.view(-1, 4, 6), _w(x, 3, 4, 2), _w(x, 3)),
    "conv2d": lambda x: F.conv2d(x.view(-1, 2, 3, 4), _w(x, 3, 2, 2, 2), _w(x, 3)),
    "conv3d": lambda x: F.conv3d(x.view(-1, 2, 3, 2, 2), _w(x, 3, 2, 2, 2, 2), _w(x, 3)),
    "conv_transpose1d": lambda x: F.conv_transpose1d(x.view(-1, 4, 6), _w(x, 4, 3, 2), _w(x, 3)),
    "conv_transpose2d": lambda x: F.conv_transpose2d(x.view(-1, 2, 3, 4), _w(x, 2, 3, 2, 2), _w(x, 3)),
    "conv_transpose3d": lambda x: F.conv_transpose3d(x.view(-1, 2, 3, 2, 2), _w(x, 2, 3, 2, 2, 2), _w(x, 3)),
    "lstm_cell": lambda x: torch.lstm_cell(
        x, (x[:, :5], x[:, 5:10]), _w(x, 20, 24), _w(x, 20, 5), _w(x, 20), _w(x, 20)
    ),
    "gru_cell": lambda x: torch.gru_cell(x, x[:, :5], _w(x, 15, 24), _w(x, 15, 5), _w(x, 15), _w(x, 15)),
    "rnn_tanh_cell": lambda x: torch.rnn_tanh_cell(x, x[:, :5], _w(x, 5, 24), _w(x, 5, 5), _w(x, 5), _w(x, 5)),
    "rnn_relu_cell": lambda x: torch.rnn_relu_cell(x, x[:, :5], _w(x, 5, 24), _w(x, 5, 5), _w(x, 5), _w(x, 5)),
    "_coalesced": None,
}

# Composite operators of PyTorch that have a kernel of this device.
COMPOSITES = {
    "_stack": lambda x: torch.stack([x, x + 1], 1),
    "abs": torch.abs,
    "addr": lambda x: torch.addr(x, x[:, 0], x[0]),
    "addr_": lambda x: x.clone().addr_(x[:, 0], x[0]),
    "all": lambda x: (x > -1).all((0, 1)),
    "any": lambda x: (x > 1).any((0, 1)),
    "conj_physical_": lambda x: torch.view_as_real(torch.view_as_complex(x.view(-1, 12, 2)).clone().conj_physical_()),
    "convolution": UNTRACED["convolution"],
    "convolution_backward": None,  # PyTorch's tracer does not take its mask
    "copy_": lambda x: torch.zeros_like(x).copy_(x),
    "dropout": lambda x: F.dropout(x, 0.5, training=False),
    "dropout_": lambda x: torch.dropout_(x.clone(), 0.0, True),
    "index_put": lambda x: torch.index_put(x, (torch.arange(2, device=x.device),), x[:2] * 2),
    "isfinite": torch.isfinite,
    "isinf": torch.isinf,
    "linalg__powsum": torch.linalg.vector_norm,
    "masked_fill": lambda x: torch.masked_fill(x, x > 0, 2.0) + torch.masked_fill(x, x > 0, x.sum()),
    "mish_backward": lambda x: torch.ops.aten.mish_backward(x, x + 1),
    "mode": lambda x: torch.mode(x.round(), 1).values,
    "mv": lambda x: torch.mv(x, x[0]),
    "native_channel_shuffle": lambda x: torch.native_channel_shuffle(x.view(-1, 4, 3, 2), 2),
    "native_group_norm": lambda x: F.group_norm(x.view(-1, 4, 6), 2),
    "native_layer_norm": lambda x: F.layer_norm(x, (24,)),
    "silu_backward": lambda x: torch.ops.aten.silu_backward(x, x + 1),
    "one_hot": lambda x: F.one_hot(x.abs().long(), 9),
    "foreach": lambda x: torch.stack(torch._foreach_add(torch._foreach_exp([x, x * 2]), [x, x])),
}


def _w(x, *sizes):
    return torch.linspace(-1, 1, torch.Size(sizes).numel(), device=x.device).view(sizes)


def move(value):
    """A copy of nested `value` with every tensor on hpu, expanded ones too."""
    return tree_map_only(torch.Tensor, lambda t: t.detach().to("hpu"), value)


def _agree(ours, theirs):
    ours, theirs = tensors_of(ours), tensors_of(theirs)
    assert [t.device.type for t in ours] == ["hpu"] * len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a.cpu(), b, rtol=1e-4, atol=1e-5, equal_nan=True)


def test_the_tables_name_every_such_operator():
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    found = set()
    for name in torch._C._dispatch_get_all_op_names():
        base = name.removeprefix("aten::").partition(".")[0]
        ours = has(name, "HPU") or has(name, "AutogradHPU")
        composite = has(name, "CompositeImplicitAutograd") or has(name, "CompositeExplicitAutograd")
        if name.startswith("aten::") and ours and composite and not name.endswith(("_out", ".out")):
            found.add("foreach" if base.startswith("_foreach_") else base)
    # Nobody calls these but PyTorch's convolution.
    found -= {"convolution_overrideable", "convolution_backward_overrideable"}
    assert found == COMPOSITES.keys()
    assert UNTRACED.keys() == DONT_RECORD_TRACE


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", [name for name, function in (UNTRACED | COMPOSITES).items() if function])
def test_an_operator_is_traced(name, grad):
    function = (UNTRACED | COMPOSITES)[name]
    one, other = torch.randn(2, 24), torch.randn(4, 24)
    with torch.set_grad_enabled(grad):
        traced = torch.jit.trace(function, one.to("hpu"))
        for x in (other, one):
            _agree(traced(x.to("hpu")), function(x))


def test_gradients_flow_through_a_trace():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2))
    expected = copy.deepcopy(model)
    model.to("hpu")
    traced = torch.jit.trace(model, torch.randn(2, 3, 8, 8, device="hpu"))
    x = torch.randn(5, 3, 8, 8)
    for _ in range(4):  # TorchScript changes its graph after the first calls
        model.zero_grad()
        expected.zero_grad()
        traced(x.to("hpu")).square().sum().backward()
        expected(x).square().sum().backward()
        _agree([p.grad for p in model.parameters()], [p.grad for p in expected.parameters()])


def _other(value, sizes):
    """Other numbers, and the first dimension twice as long where `sizes`."""

    def change(t):
        longer = torch.cat([t, t]) if sizes and t.dim() else t
        return longer.flip(0) * (0.5 if longer.is_floating_point() and (longer.min() < 0 or longer.max() > 1) else 1)

    return tree_map_only(torch.Tensor, change, value)


def _trace(module, args, named):
    given = {"example_kwarg_inputs": named} if named else {"example_inputs": args}
    return torch.jit.trace(module, check_trace=False, **given)


# PyTorch's samples of fractional pooling have a dtype that the modules refuse.
MODULES = [info for info in module_db if not info.name.startswith("nn.FractionalMaxPool")]


@pytest.mark.parametrize("info", MODULES, ids=lambda info: info.name)
@torch.no_grad()
def test_a_module_is_traced_and_scripted(info):
    inputs = info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=False, training=False)
    checked = 0
    for sample in itertools.islice(inputs, 3):
        if sample.forward_input is None:
            continue
        args, named = sample.forward_input.args, sample.forward_input.kwargs
        built = info.module_cls(*sample.constructor_input.args, **sample.constructor_input.kwargs).eval()
        if named:  # the tracer takes all by position, or all by name
            named = dict(inspect.signature(built.forward).bind(*args, **named).arguments)
            args = ()
            named = {name: value for name, value in named.items() if value is not None}
        built(*args, **named)  # gives lazy modules their sizes
        for make in (_trace, lambda module, args, named: torch.jit.script(module)):
            try:
                theirs = make(copy.deepcopy(built), args, named)
            except Exception:
                continue  # PyTorch can't do it on the CPU either
            ours = make(copy.deepcopy(built).to("hpu"), move(args), move(named))
            # The states of recurrent modules have another batch dimension than their inputs.
            for sizes in (False,) if isinstance(built, nn.RNNBase) else (False, True):
                other, other_named = _other(args, sizes), _other(named, sizes)
                try:
                    expected = theirs(*other, **other_named)
                except Exception:
                    continue  # these sizes fit no such module
                _agree(ours(*move(other), **move(other_named)), expected)
                checked += 1
    assert checked


@pytest.mark.parametrize("module", [nn.LSTM, nn.GRU, nn.RNN])
@torch.no_grad()
def test_a_recurrent_module_is_traced_for_every_batch(module):
    built = module(4, 5, 2, bidirectional=True).eval()

    def inputs(batch):
        state = torch.randn(4, batch, 5)
        return torch.randn(3, batch, 4), (state, state * 2) if module is nn.LSTM else state

    traced = torch.jit.trace(copy.deepcopy(built).to("hpu"), move(inputs(2)))
    for batch in (2, 3, 6):
        args = inputs(batch)
        _agree(traced(*move(args)), built(*args))
