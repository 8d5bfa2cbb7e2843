"""The models of published rows, from their configurations: Llama, BERT and GPT-2.

They are written as Gaudi's users run them: matrix products in fp8 with `torch.ops.hpu`'s operators, fused attention,
a key-value cache of a fixed length.
"""

import dataclasses
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

BF16, FP8 = torch.bfloat16, torch.float8_e4m3fn
Cache = tuple[torch.Tensor, torch.Tensor]


@dataclasses.dataclass(frozen=True)
class Config:
    """The sizes of a transformer. `key_heads`: heads of keys and values; `inner`: the width of the MLP."""

    layers: int
    width: int
    heads: int
    key_heads: int
    inner: int
    words: int
    positions: int = 0  # learned positions; 0: rotary


CONFIGS = {
    "llama2-7b": Config(32, 4096, 32, 32, 11008, 32000),
    "llama2-13b": Config(40, 5120, 40, 40, 13824, 32000),
    "llama2-70b": Config(80, 8192, 64, 8, 28672, 32000),
    "llama3.1-8b": Config(32, 4096, 32, 8, 14336, 128256),
    "llama3.1-70b": Config(80, 8192, 64, 8, 28672, 128256),
    "bert-large": Config(24, 1024, 16, 16, 4096, 30522, 512),
    "gpt2-xl": Config(48, 1600, 25, 25, 6400, 50257, 1024),
}


def _to_fp8(x: torch.Tensor, dtype: torch.dtype = FP8) -> torch.Tensor:
    return torch.ops.hpu.cast_to_fp8_v2(x, None, False, False, dtype)[0]


def _product(a: torch.Tensor, a_turned: bool, b: torch.Tensor, b_turned: bool) -> torch.Tensor:
    return torch.ops.hpu.fp8_gemm_v2(a, a_turned, b, b_turned, None, BF16)


def _bf16_product(a: torch.Tensor, a_turned: bool, b: torch.Tensor, b_turned: bool) -> torch.Tensor:
    return torch.matmul(a.mT if a_turned else a, b.mT if b_turned else b)


class _Fp8Product(torch.autograd.Function):
    """x @ weight.T in fp8, and both products of the backward pass in fp8."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        small, narrow = _to_fp8(x.flatten(0, -2)), _to_fp8(weight)
        ctx.save_for_backward(small, narrow)
        return _product(small, False, narrow, True).view(*x.shape[:-1], weight.shape[0])

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x, weight = ctx.saved_tensors
        gradient = _to_fp8(gradients[0].flatten(0, -2), torch.float8_e5m2)
        to_x = _product(gradient, False, weight, False).view(*gradients[0].shape[:-1], x.shape[-1])
        return to_x, _product(gradient, True, x, False)


class _Over(torch.autograd.Function):
    """The sum over the cards of tensor parallelism: of the values, or of their gradients."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, values: bool) -> torch.Tensor:
        ctx.values = values
        return torch.ops._c10d_functional.all_reduce(x, "sum", "tensor") if values else x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        gradient = gradients[0]
        return gradient if ctx.values else torch.ops._c10d_functional.all_reduce(gradient, "sum", "tensor"), None


def _over(x: torch.Tensor, many: bool, values: bool = False) -> torch.Tensor:
    return _Over.apply(x, values) if many else x


class Linear(nn.Module):
    """Without bias. "bf16", or "fp8": in training the weights are bf16, in inference they are fp8, too."""

    def __init__(self, inputs: int, outputs: int, precision: str, train: bool) -> None:
        super().__init__()
        dtype = FP8 if precision == "fp8" and not train else BF16
        self.weight = nn.Parameter(torch.empty(outputs, inputs, dtype=dtype), requires_grad=train)
        self.precision = precision

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.precision != "fp8":
            return functional.linear(x, self.weight)
        if self.weight.requires_grad:
            return _Fp8Product.apply(x, self.weight)
        return _product(_to_fp8(x.flatten(0, -2)), False, self.weight, True).view(*x.shape[:-1], -1)


class Block(nn.Module):
    """A layer of a Llama; one card's part of it with `tensor` cards."""

    def __init__(self, config: Config, precision: str, train: bool, tensor: int) -> None:
        super().__init__()
        head = config.width // config.heads
        self.heads = config.heads // tensor
        self.key_heads = config.key_heads // tensor
        self.tensor = tensor
        self.head = head
        self.fp8 = precision == "fp8"
        part = {"precision": precision, "train": train}
        self.before = nn.RMSNorm(config.width, dtype=BF16)
        self.after = nn.RMSNorm(config.width, dtype=BF16)
        self.qkv = Linear(config.width, (self.heads + 2 * self.key_heads) * head, **part)  # type: ignore[arg-type]
        self.out = Linear(self.heads * head, config.width, **part)  # type: ignore[arg-type]
        self.gate_up = Linear(config.width, 2 * config.inner // tensor, **part)  # type: ignore[arg-type]
        self.down = Linear(config.inner // tensor, config.width, **part)  # type: ignore[arg-type]

    def forward(self, x: torch.Tensor, turn: Cache, cache: Cache | None, at: torch.Tensor | None) -> torch.Tensor:
        many = self.tensor > 1
        qkv = self.qkv(_over(self.before(x), many))
        x = x + _over(self.out(self._attend(qkv, turn, cache, at)), many, True)
        gate, up = self.gate_up(_over(self.after(x), many)).chunk(2, -1)
        return x + _over(self.down(functional.silu(gate) * up), many, True)

    def _attend(self, qkv: torch.Tensor, turn: Cache, cache: Cache | None, at: torch.Tensor | None) -> torch.Tensor:
        batch, length, _ = qkv.shape
        parts = (
            qkv.view(batch, length, -1, self.head)
            .transpose(1, 2)
            .split([self.heads, self.key_heads, self.key_heads], 1)
        )
        query, key, value = _rotate(parts[0], turn), _rotate(parts[1], turn), parts[2]
        if cache is not None:
            keys, values = cache
            keys.index_copy_(2, at, self._narrow(key))  # type: ignore[arg-type]
            values.index_copy_(2, at, self._narrow(value))  # type: ignore[arg-type]
        if cache is None or length > 1:
            found = functional.scaled_dot_product_attention(
                query, key, value, is_causal=True, enable_gqa=self.heads != self.key_heads
            )
        else:
            grouped = self._narrow(query.reshape(batch, self.key_heads, -1, self.head))
            product = _product if self.fp8 else _bf16_product
            weights = functional.softmax(product(grouped, False, cache[0], True), -1)
            found = product(self._narrow(weights), False, cache[1], False)
        return found.reshape(batch, self.heads, length, self.head).transpose(1, 2).reshape(batch, length, -1)

    def _narrow(self, x: torch.Tensor) -> torch.Tensor:
        return _to_fp8(x) if self.fp8 else x


def _rotate(x: torch.Tensor, turn: Cache) -> torch.Tensor:
    first, second = x.chunk(2, -1)
    return x * turn[0] + torch.cat((-second, first), -1) * turn[1]


class Llama(nn.Module):
    """Training: the loss of `words`. Inference: the logits of the last position, or of all; `cache` is written."""

    def __init__(
        self,
        config: Config,
        precision: str,
        train: bool,
        tensor: int = 1,
        again: bool = False,
        all_logits: bool = False,
    ) -> None:
        super().__init__()
        self.all_logits = all_logits
        self.train_it = train
        self.again = again
        self.head = config.width // config.heads
        self.many = tensor > 1
        self.words = nn.Embedding(config.words, config.width, dtype=BF16)
        self.layers = nn.ModuleList(Block(config, precision, train, tensor) for _ in range(config.layers))
        self.norm = nn.RMSNorm(config.width, dtype=BF16)
        self.logits = Linear(config.width, config.words // tensor, "bf16" if train else precision, train)

    def forward(
        self, words: torch.Tensor, caches: list[Cache] | None = None, at: torch.Tensor | None = None
    ) -> torch.Tensor:
        x = self.words(words)
        size = (1, 1, words.shape[1], self.head)
        turn = torch.empty(size, dtype=BF16, device=x.device), torch.empty(size, dtype=BF16, device=x.device)
        for number, layer in enumerate(self.layers):
            cache = caches[number] if caches else None
            x = checkpoint(layer, x, turn, None, None, use_reentrant=False) if self.again else layer(x, turn, cache, at)
        if not self.train_it:
            logits = self.logits(self.norm(x if self.all_logits else x[:, -1:]))
            logits[:, -1].float().argmax(-1)  # the next words
            return logits
        logits = self.logits(_over(self.norm(x), self.many))
        return functional.cross_entropy(logits.flatten(0, 1).float(), words.flatten())


class Classic(nn.Module):
    """BERT (`causal` is false: classes of a sequence) and GPT-2 (true: the loss of each word), float32 weights."""

    def __init__(self, config: Config, causal: bool) -> None:
        super().__init__()
        self.words = nn.Embedding(config.words, config.width)
        self.positions = nn.Embedding(config.positions, config.width)
        self.layers = nn.ModuleList(_ClassicBlock(config, causal) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.classes = nn.Linear(config.width, config.words if causal else 2, bias=not causal)
        self.causal = causal
        if causal:
            self.classes.weight = self.words.weight

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.words(words) + self.positions.weight[: words.shape[1]]
        x = functional.dropout(self.norm(x) if not self.causal else x, 0.1)
        for layer in self.layers:
            x = layer(x)
        if not self.causal:
            return functional.cross_entropy(self.classes(x[:, 0]).float(), words[:, 0])
        return functional.cross_entropy(self.classes(self.norm(x)).flatten(0, 1).float(), words.flatten())


class _ClassicBlock(nn.Module):
    def __init__(self, config: Config, causal: bool) -> None:
        super().__init__()
        self.heads = config.heads
        self.causal = causal
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.out = nn.Linear(config.width, config.width)
        self.up = nn.Linear(config.width, config.inner)
        self.down = nn.Linear(config.inner, config.width)
        self.first = nn.LayerNorm(config.width)
        self.second = nn.LayerNorm(config.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.causal:  # the norm comes first
            x = x + self._attend(self.first(x))
            return x + self._widen(self.second(x))
        x = self.first(x + self._attend(x))
        return self.second(x + self._widen(x))

    def _widen(self, x: torch.Tensor) -> torch.Tensor:
        return functional.dropout(self.down(functional.gelu(self.up(x))), 0.1)

    def _attend(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        query, key, value = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        scores = query @ key.transpose(-1, -2) * 0.125
        if self.causal:
            scores = scores.masked_fill(torch.empty(1, 1, length, length, dtype=torch.bool, device=x.device), -1e4)
        weights = functional.dropout(functional.softmax(scores, -1), 0.1)
        return functional.dropout(self.out((weights @ value).transpose(1, 2).reshape(batch, length, width)), 0.1)
