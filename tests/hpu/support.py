"""What several files of tests need: running the same code on both devices, and small models."""

import gc
import inspect
import math
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_leaves, tree_map

from habana_frameworks.torch.core import mark_step
from openhpu import _C, events, settings
from openhpu.capture.hpu_graphs import check, compared


def line():
    """The number of the calling line."""
    return inspect.currentframe().f_back.f_lineno


def compiled(function, **options):
    """`function` through torch.compile."""
    return torch.compile(function, backend="hpu_backend", **options)


def outcome(function, arguments, model=None):
    """What `function` returns, its arguments afterwards, gradients of them and of a model, the next random number."""
    results = function(*arguments)
    squares = [t.float().square().sum() for t in tree_leaves(results) if torch.is_tensor(t) and t.requires_grad]
    leaves = [t for t in tree_leaves(arguments) if torch.is_tensor(t) and t.requires_grad]
    leaves += model.parameters() if model else []
    gradients = torch.autograd.grad(squares, leaves, allow_unused=True) if squares and leaves else ()
    return results, arguments, gradients, torch.rand(1, device="hpu")


def compiled_agrees(work, make, *, calls=3, model=None, like=None, rtol=None, atol=None, **options):
    """In each call with `make(k)` a compiled `work` has the outcome of `work`, or of `like`. The compiled function."""
    f = compiled(work, **options)
    for k in range(calls):
        outcomes = []
        for function in (f, like or work):
            torch.manual_seed(k)
            outcomes.append(outcome(function, make(k), model))
        torch.testing.assert_close(*outcomes, rtol=rtol, atol=atol, equal_nan=True, check_stride=not like)
    return f


def in_threads(*functions):
    """What they return, each in a thread of its own, all at once."""
    with ThreadPoolExecutor(len(functions)) as pool:
        return [running.result() for running in [pool.submit(function) for function in functions]]


@contextmanager
def counted(**expected):
    """`with counted(name=n) as difference:` fills a dict with how far each counter moved inside: `name` by n.

    `ops_issued` is the sum that holds in both modes: operators for which the host did not wait.
    """
    difference = {}
    before = events.counters()
    yield difference
    difference.update({name: value - before[name] for name, value in events.counters().items()})
    difference["ops_issued"] = difference["ops_submitted"] + difference["ops_recorded"]
    assert difference == difference | expected, difference


def both_ways(prepare, run):
    """What `run` gives of what `prepare` made node by node: node by node, and in a recipe."""
    policy, limits = settings.get("OPENHPU_COMPILE"), (settings.get("HABANA_PGM_LRU_MAX"), 10000)
    found = []
    for way in ("off", "sync"):
        torch.ones(1, device="hpu")  # the settings have been read
        _C.configure_graphs("off", *limits)
        try:
            made = prepare()
            torch.hpu.synchronize()
            _C.configure_graphs(way, *limits)
            with counted(recipe_hits=way == "sync"):
                results = run(made)
                mark_step()
                found.append([tensor.cpu() for tensor in results])
        finally:
            _C.configure_graphs(policy, *limits)
    return found


@contextmanager
def product_rule(rule):
    """Products inside are computed by this rule of choice."""
    _C.set_product_rule(rule)
    try:
        yield rule
    finally:
        _C.set_product_rule("auto")


@contextmanager
def in_place_of(name, kernel):
    """A Python kernel for the CPU in the place of PyTorch's for an operator of aten."""
    with torch.library._scoped_library("aten", "IMPL") as library:
        with warnings.catch_warnings(action="ignore"):  # that it is
            library.impl(name, kernel, "CPU", allow_override=True)
        yield


@contextmanager
def listening(*kinds_and_listeners):
    """Listeners to events of their kinds hear what happens inside."""
    subscriptions = [events.subscribe(kind, listener) for kind, listener in kinds_and_listeners]
    try:
        yield
    finally:
        for subscription in subscriptions:
            events.unsubscribe(subscription)


@contextmanager
def heard(*kinds):
    """The events of these kinds that happen inside."""
    found = []
    with listening(*((kind, found.append) for kind in kinds)):
        yield found


@contextmanager
def checked_graphs(**others):
    """The outcomes of checks of graphs, which are on inside, with their texts. `others`: settings."""
    compared._said.clear()
    found = []
    hear = lambda event: found.append((event.params["outcome"], event.params["text"]))  # noqa: E731
    with ExitStack() as stack:
        for name, value in {"OPENHPU_CHECK_GRAPHS": True, **others}.items():
            stack.enter_context(settings.overridden(name, value))
        with listening(("graph_check", hear)):
            yield found
    check._suspects.clear()


def capture(function):
    """(graph, result) of `function`, captured."""
    g = torch.hpu.HPUGraph()
    with torch.hpu.graph(g):
        result = function()
    return g, result


def memory_in_use():
    """Bytes of device memory in use, without garbage."""
    gc.collect()
    torch.hpu.synchronize()
    return torch.hpu.memory_stats()["InUse"]


def to_hpu(values):
    """A copy of nested `values` with every tensor on hpu, strides and requires_grad kept."""

    def move(value):
        if not isinstance(value, torch.Tensor):
            return value
        moved = torch.empty_strided(value.size(), value.stride(), dtype=value.dtype, device="hpu")
        moved.copy_(value.detach())
        return moved.requires_grad_(value.requires_grad)

    return tree_map(move, values)


def to_cpu(values):
    """A copy of nested `values` with every tensor on the CPU."""
    return tree_map(lambda value: value.detach().cpu() if isinstance(value, torch.Tensor) else value, values)


def agree(function, *arguments, exact=True):
    """`function` gives the same on hpu as on the CPU, and changes its tensor arguments in the same way."""
    on_hpu = to_hpu(arguments)
    on_cpu = tree_map(lambda value: value.clone() if isinstance(value, torch.Tensor) else value, arguments)
    expected = function(*on_cpu)
    actual = function(*on_hpu)
    tolerance = {"rtol": 0, "atol": 0} if exact else {}
    torch.testing.assert_close(to_cpu(actual), to_cpu(expected), equal_nan=True, **tolerance)
    torch.testing.assert_close(to_cpu(on_hpu), to_cpu(on_cpu), equal_nan=True, **tolerance)
    return actual


def wide(values):
    """Nested tensors in float64 that require a gradient."""
    return tree_map(lambda value: value.detach().cpu().double().requires_grad_(), values)


def close(actual, expected, rtol=1e-5, atol=1e-6):
    """Nested results are near those that were computed in float64."""
    actual, expected = (
        tree_map(lambda value: value.detach().cpu().double() if isinstance(value, torch.Tensor) else value, values)
        for values in (actual, expected)
    )
    torch.testing.assert_close(actual, expected, rtol=rtol, atol=atol)


def agree_on_error(function, *arguments):
    """`function` raises the same class of error on both devices."""
    on_hpu = to_hpu(arguments)
    with pytest.raises(Exception) as expected:
        function(*arguments)
    with pytest.raises(expected.type) as found:
        function(*on_hpu)
        torch.hpu.synchronize()
    assert found.type is expected.type


def exact_attention(q, k, v, scale, *, seen=None, added=0.0, sinks=None, keep=1.0):
    """The result, the probabilities and the scores, in float64. A query that sees nothing gets 0."""
    q, k, v = (t.double() for t in (q, k, v))
    k, v = (t.repeat_interleave(q.shape[1] // k.shape[1], 1) for t in (k, v))
    scores = q @ k.mT * scale + added
    if seen is not None:
        scores = scores.masked_fill(~seen, -math.inf)
    if sinks is not None:
        scores = torch.cat((scores, sinks.double().reshape(-1, 1, 1).expand(*scores.shape[:-1], 1)), -1)
    probabilities = torch.softmax(scores, -1).nan_to_num()[..., : k.shape[2]]
    return probabilities * keep @ v, probabilities, scores


def causal(length):
    """Which keys each query sees."""
    return torch.ones(length, length, dtype=torch.bool).tril()


def mixture(x, routing, weights, expert, first=0):
    """Of each token the sum over its experts, whose numbers begin at `first`; `expert(i, row)` in float64."""
    out = torch.zeros(x.shape, dtype=torch.float64)
    for token in range(len(x)):
        for number, weight in zip(routing[token].tolist(), weights[token].double(), strict=True):
            out[token] += weight * expert(number - first, x[token].double())
    return out


class Mlp(nn.Sequential):
    """Three layers; `batch` makes its input and target."""

    def __init__(self):
        super().__init__(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 4))

    def batch(self):
        return torch.linspace(-1, 1, 8 * 16).view(8, 16), torch.arange(8) % 4


class ConvNet(nn.Module):
    """Two convolutions with batch norm, pooling, a classifier."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 8, 3, padding=1, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
        )
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        return self.head(self.body(x).flatten(1))

    def batch(self):
        return torch.linspace(-1, 1, 4 * 3 * 8 * 8).view(4, 3, 8, 8), torch.arange(4)


class Gpt(nn.Module):
    """Two blocks of causal attention over tokens."""

    def __init__(self, width=16, heads=2, vocabulary=11, length=12):
        super().__init__()
        self.heads = heads
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(
            nn.ModuleDict(
                {
                    "norm": nn.LayerNorm(width),
                    "attention": nn.Linear(width, 3 * width),
                    "join": nn.Linear(width, width),
                    "norm2": nn.LayerNorm(width),
                    "mlp": nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)),
                }
            )
            for _ in range(2)
        )
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        batch, length = tokens.shape
        x = self.tokens(tokens) + self.places(torch.arange(length, device=tokens.device))
        for block in self.blocks:
            parts = block["attention"](block["norm"](x)).view(batch, length, 3, self.heads, -1)
            q, k, v = parts.permute(2, 0, 3, 1, 4)
            mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + block["join"](mixed.transpose(1, 2).reshape(batch, length, -1))
            x = x + block["mlp"](block["norm2"](x))
        return self.head(x)

    def batch(self):
        tokens = torch.arange(4 * 12).view(4, 12) % 11
        return tokens, tokens.roll(-1, 1)


MODELS = {"mlp": Mlp, "convnet": ConvNet, "gpt": Gpt}


def loss_of(model, x, target):
    """Cross entropy over the last dimension of what the model returns."""
    return nn.functional.cross_entropy(model(x).flatten(0, -2), target.flatten())


def train_step(model, optimizer, x, target):
    """One step of training; returns the loss, still on the device."""
    optimizer.zero_grad()
    loss = loss_of(model, x, target)
    loss.backward()
    optimizer.step()
    return loss.detach()


def make(name, optimizer=torch.optim.AdamW, device="hpu", steps=0, **settings):
    """(model, optimizer, x, target) of a small model after so many steps, with the same weights on every device."""
    torch.manual_seed(1)
    model = MODELS[name]()
    x, target = model.batch()
    model.to(device)
    made = model, optimizer(model.parameters(), lr=0.01, **settings), x.to(device), target.to(device)
    for _ in range(steps):
        train_step(*made)
        torch.hpu.synchronize()
    return made


@contextmanager
def watched_indices():
    """Counter, events and warnings of the indices out of range of what runs inside: `counted`, `events`, `warnings`."""
    torch.hpu.synchronize()
    watched = SimpleNamespace()
    before = events.counters()["indices_out_of_range"]
    with heard("indices_out_of_range") as watched.events, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield watched
        torch.hpu.synchronize()
    watched.counted = events.counters()["indices_out_of_range"] - before
    watched.warnings = [str(w.message) for w in caught]
