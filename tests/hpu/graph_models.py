"""Graphs of true models, under OPENHPU_CHECK_GRAPHS: PyTorch's database of modules, and small whole models.

`PT_HPU_LAZY_MODE=1 OPENHPU_COMPILE=sync python -m tests.hpu.graph_models [NAME ...]` captures each as a graph and
replays it with other inputs, with recipes. It prints the outcomes of each, and the share that was checked.
"""

import contextlib
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.testing._internal.common_modules import module_db
from torch.utils._pytree import tree_map

from openhpu import events, settings

Arguments = tuple[Any, ...]
Model = tuple[Callable[[], Any], Callable[[], Arguments]]  # what makes the model, and arguments on the CPU


def to_hpu(values: Any) -> Any:
    """Nested values with their tensors on hpu."""
    return tree_map(lambda value: value.detach().to("hpu") if isinstance(value, torch.Tensor) else value, values)


def _of_database() -> Iterator[tuple[str, Model]]:
    for info in module_db:
        for training in (False, True):
            inputs = info.module_inputs_func(info, "cpu", torch.float32, False, training)
            with contextlib.suppress(StopIteration):
                sample = next(one for one in iter(inputs) if one.forward_input is not None)
                built, given = sample.constructor_input, sample.forward_input

                def make(info: Any = info, built: Any = built, training: bool = training) -> nn.Module:
                    return info.module_cls(*built.args, **built.kwargs).train(training)

                def arguments(given: Any = given) -> Arguments:
                    return given.args, given.kwargs

                yield f"{info.name}, {'train' if training else 'eval'}", (make, arguments)


class Residual(nn.Module):
    """A block of a convolutional network."""

    def __init__(self, channels: int, norm: Callable[[int], nn.Module]) -> None:
        super().__init__()
        self.a, self.b = (nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))
        self.norm = norm(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(x + self.b(F.gelu(self.norm(self.a(x)))))


class Classifier(nn.Module):
    """A convolutional network with a head."""

    def __init__(self, norm: Callable[[int], nn.Module] = nn.BatchNorm2d, depth: int = 2) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, stride=2, padding=1)
        self.blocks = nn.Sequential(*(Residual(16, norm) for _ in range(depth)))
        self.head = nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


class Unet(nn.Module):
    """Down, up, and a bridge."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.mid = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 8, 3, 1, 1)
        self.up = nn.ConvTranspose2d(8, 8, 2, 2)
        self.out = nn.Conv2d(11, 3, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.up(F.silu(self.mid(F.silu(self.down(x)))))
        return self.out(torch.cat([x, y], 1))


class Rotary(nn.Module):
    """Attention with rotated queries and keys, and a cache that is made at the first call."""

    def __init__(self, width: int = 32, heads: int = 4, causal: bool = True) -> None:
        super().__init__()
        self.heads, self.causal = heads, causal
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.register_buffer("frequencies", 1e4 ** (-torch.arange(0, width // heads, 2) / (width // heads)))
        self.tables: dict[int, Any] = {}

    def rotate(self, x: torch.Tensor) -> torch.Tensor:
        length = x.shape[-2]
        if length not in self.tables:
            angles = torch.arange(length, device=x.device)[:, None] * self.frequencies
            self.tables[length] = angles.cos(), angles.sin()
        cos, sin = self.tables[length]
        a, b = x.chunk(2, -1)
        return torch.cat([a * cos - b * sin, a * sin + b * cos], -1).to(x.dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).movedim(-3, 0).transpose(-2, -3)
        y = F.scaled_dot_product_attention(self.rotate(q), self.rotate(k), v, is_causal=self.causal)
        return self.out(y.transpose(-2, -3).flatten(-2))


class RMSNorm(nn.Module):
    """As many language models have it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        return self.weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype)


class Llama(nn.Module):
    """A language model with gated layers."""

    def __init__(self, depth: int = 2, width: int = 32, causal: bool = True) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(100, width), nn.Linear(width, 100, bias=False)
        self.norms = nn.ModuleList(RMSNorm(width) for _ in range(2 * depth + 1))
        self.attention = nn.ModuleList(Rotary(width, causal=causal) for _ in range(depth))
        self.gates, self.ups, self.downs = (
            nn.ModuleList(nn.Linear(*sizes, bias=False) for _ in range(depth))
            for sizes in ((width, 64), (width, 64), (64, width))
        )

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embed(ids)
        for i, attention in enumerate(self.attention):
            x = x + attention(self.norms[2 * i](x))
            y = self.norms[2 * i + 1](x)
            x = x + self.downs[i](F.silu(self.gates[i](y)) * self.ups[i](y))
        return self.head(self.norms[-1](x))


class Bert(nn.Module):
    """An encoder with an additive mask, which hides padding by the lowest number."""

    def __init__(self, activation: str = "gelu", norm_first: bool = False, dropout: float = 0.1) -> None:
        super().__init__()
        self.embed, self.places = nn.Embedding(100, 32), nn.Embedding(16, 32)
        self.q, self.k, self.v = (nn.Linear(32, 32) for _ in range(3))
        self.norm, self.dropout = nn.LayerNorm(32), nn.Dropout(dropout)
        self.rest = nn.TransformerEncoderLayer(32, 4, 64, dropout, activation, batch_first=True, norm_first=norm_first)

    def forward(self, ids: torch.Tensor) -> dict[str, Any]:
        x = self.dropout(self.embed(ids) + self.places.weight[: ids.shape[1]])
        mask = torch.where(ids == 0, torch.finfo(x.dtype).min, 0.0)[:, None]
        scores = self.q(x) @ self.k(x).transpose(1, 2) / 32**0.5 + mask
        x = self.rest(self.norm(x + self.dropout(scores.softmax(-1)) @ self.v(x)))
        return {"hidden": x, "pooled": x[:, 0].tanh(), "scores": scores, "length": ids.shape[1]}


class Recurrent(nn.Module):
    """A recurrent network with a head."""

    def __init__(self, kind: type, **options: Any) -> None:
        super().__init__()
        self.net = kind(8, 16, batch_first=True, **options)
        self.head = nn.Linear(16 * (1 + options.get("bidirectional", False)), 4)

    def forward(self, x: torch.Tensor) -> Any:
        y, hidden = self.net(x)
        return self.head(y), hidden


class Experts(nn.Module):
    """A mixture: each token goes to its two best experts."""

    def __init__(self, n: int = 4) -> None:
        super().__init__()
        self.gate, self.experts = nn.Linear(16, n), nn.Parameter(torch.randn(n, 16, 16) * 0.2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights, chosen = self.gate(x).softmax(-1).topk(2, -1)
        y = torch.einsum("bd,ndk->bnk", x, self.experts)
        return (y.gather(1, chosen[..., None].expand(-1, -1, 16)) * weights[..., None]).sum(1)


class Vae(nn.Module):
    """It draws between its halves."""

    def __init__(self) -> None:
        super().__init__()
        self.encode, self.decode = nn.Linear(16, 16), nn.Linear(8, 16)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        mean, log = self.encode(x).chunk(2, -1)
        z = mean + torch.randn_like(mean) * (log / 2).exp()
        return self.decode(z), mean, log


class Vit(nn.Module):
    """A transformer on patches."""

    def __init__(self, depth: int = 2) -> None:
        super().__init__()
        self.patch, self.token = nn.Conv2d(3, 32, 4, 4), nn.Parameter(torch.randn(1, 1, 32))
        layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=True, activation="gelu")
        self.layers, self.head = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False), nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patch(x).flatten(2).transpose(1, 2)
        return self.head(self.layers(torch.cat([self.token.expand(len(x), -1, -1), x], 1))[:, 0])


class Fp8Linear(nn.Module):
    """Weights and inputs in 8 bits, with scales."""

    def __init__(self, dtype: torch.dtype = torch.float8_e4m3fn) -> None:
        super().__init__()
        self.dtype, self.scale = dtype, 4.0
        self.weight = nn.Parameter(torch.randn(16, 16) * 0.3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        w = (self.weight * self.scale).to(self.dtype).to(torch.bfloat16)
        y = (x * self.scale).to(self.dtype).to(torch.bfloat16) @ w.t()
        return y.float() / self.scale**2


class Loss(nn.Module):
    """A model with its loss."""

    def __init__(self, model: nn.Module, loss: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.model, self.loss = model, loss

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        z = self.model(x)
        return self.loss(z, y), z


def mlp(activation: type = nn.ReLU, norm: Any = nn.Identity, dropout: float = 0.0) -> nn.Module:
    """Three layers."""
    layers = [nn.Linear(16, 32), norm(32), activation(), nn.Dropout(dropout), nn.Linear(32, 32), activation()]
    return nn.Sequential(*layers, nn.Linear(32, 8))


def rows() -> Arguments:
    return (torch.randn(6, 16),), {}


def images() -> Arguments:
    return (torch.randn(2, 3, 16, 16),), {}


def ids() -> Arguments:
    return (torch.randint(0, 100, (2, 12)),), {}


def series() -> Arguments:
    return (torch.randn(3, 7, 8),), {}


def labelled() -> Arguments:
    return (torch.randn(6, 16), torch.randint(0, 8, (6,))), {}


def pairs() -> Arguments:
    return (torch.randn(2, 5, 32), torch.randn(2, 6, 32)), {}


def _in(dtype: torch.dtype, make: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    """The model under autocast."""

    class Cast(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = make()

        def forward(self, *args: Any) -> Any:
            with torch.autocast("hpu", dtype=dtype):
                return self.model(*args)

    return Cast


def _made() -> Iterator[tuple[str, Model]]:
    for activation in (nn.ReLU, nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.ELU, nn.Mish, nn.Softplus, nn.Hardswish):
        yield f"MLP, {activation.__name__}", (lambda a=activation: mlp(a), rows)
    for norm in (nn.LayerNorm, nn.BatchNorm1d, RMSNorm, nn.RMSNorm):
        yield f"MLP, {norm.__name__}", (lambda n=norm: mlp(norm=n, dropout=0.3), rows)
    for norm in (nn.BatchNorm2d, nn.InstanceNorm2d, lambda n: nn.GroupNorm(4, n), nn.Identity):
        yield f"ResNet, {getattr(norm, '__name__', 'norm')}", (lambda n=norm: Classifier(n), images)
    yield "ResNet, eval", (lambda: Classifier().eval(), images)
    yield "U-Net", (Unet, images)
    yield "Llama", (Llama, ids)
    yield "Llama, not causal", (lambda: Llama(causal=False), ids)
    yield "Llama, one layer", (lambda: Llama(1, 64), ids)
    yield "BERT", (Bert, ids)
    yield "BERT, eval", (lambda: Bert().eval(), ids)
    yield "BERT, norm first", (lambda: Bert("relu", norm_first=True), ids)
    for kind in (nn.LSTM, nn.GRU, nn.RNN):
        for options in ({}, {"bidirectional": True}, {"num_layers": 2, "dropout": 0.2}):
            yield f"{kind.__name__} {options}", (lambda k=kind, o=options: Recurrent(k, **o), series)
    yield "experts", (Experts, rows)
    yield "VAE", (Vae, rows)
    yield "ViT", (Vit, images)
    yield "ViT, eval", (lambda: Vit(1).eval(), images)
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        yield f"linear, {dtype}", (lambda d=dtype: Fp8Linear(d), rows)
    for loss in (nn.CrossEntropyLoss(), nn.MultiMarginLoss(), nn.CrossEntropyLoss(label_smoothing=0.1)):
        yield f"MLP with {loss}", (lambda each=loss: Loss(mlp(), each), labelled)
    yield "transformer", (lambda: nn.Transformer(32, 4, 1, 1, 64, batch_first=True), pairs)
    yield "decoder", (lambda: nn.TransformerDecoderLayer(32, 4, 64, batch_first=True), pairs)
    yield "embedding bag", (lambda: nn.Sequential(nn.EmbeddingBag(100, 16), nn.Linear(16, 4)), ids)
    for dtype in (torch.bfloat16, torch.float16):
        for name, make, given in (
            ("MLP", mlp, rows),
            ("ResNet", Classifier, images),
            ("Llama", Llama, ids),
            ("BERT", Bert, ids),
            ("ViT", Vit, images),
            ("experts", Experts, rows),
        ):
            yield f"{name}, autocast {dtype}", (_in(dtype, make), given)
    for dtype in (torch.bfloat16, torch.float64):
        for name, make, given in (
            ("MLP", mlp, rows),
            ("ResNet", Classifier, images),
            ("LSTM", lambda: Recurrent(nn.LSTM), series),
        ):
            yield (
                f"{name} of {dtype}",
                (lambda m=make, d=dtype: m().to(d), lambda g=given, d=dtype: (tuple(t.to(d) for t in g()[0]), {})),
            )


def models() -> Iterator[tuple[str, Model]]:
    """All of them, each with what makes it and its arguments."""
    yield from _made()
    yield from _of_database()


def wrapped(make: Callable[[], Any], arguments: Callable[[], Arguments], calls: int = 3) -> None:
    """A model as a graph for inference, with other numbers in each call."""
    model = torch.hpu.wrap_in_hpu_graph(make().to("hpu"))
    with torch.no_grad():
        for k in range(calls):
            args, kwargs = to_hpu(arguments())
            args = tuple(a * (1 - 0.05 * k) if torch.is_tensor(a) and a.is_floating_point() and k else a for a in args)
            model(*args, **kwargs)


def trained(make: Callable[[], Any], arguments: Callable[[], Arguments], calls: int = 3) -> None:
    """A model whose forward and backward are graphs, in steps of training."""
    model = torch.hpu.ModuleCacher()(make().train().to("hpu"))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    for _ in range(calls):
        args, kwargs = to_hpu(arguments())
        found = torch.utils._pytree.tree_leaves(model(*args, **kwargs))
        sum(t.float().square().mean() for t in found if torch.is_tensor(t) and t.requires_grad).backward()
        optimizer.step()
        optimizer.zero_grad()


def graphs() -> Iterator[tuple[str, Callable[[], None]]]:
    """Each graph of a true model: a name, and a script."""
    for name, (make, arguments) in models():
        yield name, lambda m=make, a=arguments: wrapped(m, a)
    for name, (make, arguments) in _made():
        if "eval" not in name and "float16" not in name:
            yield f"{name}, training", lambda m=make, a=arguments: trained(m, a)


def check(script: Callable[[], None]) -> dict[str, set[str]]:
    """The outcomes of the checks of a script's replays, with their texts."""
    outcomes: dict[str, set[str]] = {}
    subscription = events.subscribe(
        "graph_check", lambda e: outcomes.setdefault(e.params["outcome"], set()).add(e.params["text"])
    )
    try:
        torch.manual_seed(0)
        with settings.overridden("OPENHPU_CHECK_GRAPHS", True), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            script()
    finally:
        events.unsubscribe(subscription)
    return outcomes


def main(names: list[str]) -> int:
    """Check the graphs whose names begin with one of `names`, or all. 1: one was accused, or too few were checked."""
    checked, accused, total = 0, 0, 0
    for name, script in graphs():
        if names and not name.startswith(tuple(names)):
            continue
        try:
            outcomes = check(script)
        except Exception as error:
            print(f"{name}: no graph ({type(error).__name__}: {str(error)[:150]})", flush=True)
            continue
        if not outcomes:
            print(f"{name}: no graph", flush=True)
            continue
        total += 1
        checked += "equal" in outcomes or "different" in outcomes
        accused += "different" in outcomes or "overwritten" in outcomes
        for outcome, texts in outcomes.items():
            print(f"{name}: {outcome}{': ' if any(texts) else ''}{'; '.join(filter(None, texts))}", flush=True)
    print(f"{total} graphs: {checked} checked, {accused} accused", flush=True)
    return int(accused > 0 or checked < 0.95 * total)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
