"""A small GPT that learns to write, character by character, from the texts of Python's own help.

python -m examples.gpt_chars                  on the hpu device
python -m examples.gpt_chars --device cpu     the same on PyTorch's CPU device
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from pydoc_data.topics import topics
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from tqdm import tqdm

import habana_frameworks.torch.core as htcore


class Text:
    """The text as numbers, its last tenth kept for validation."""

    def __init__(self) -> None:
        text = "\n".join(topics[name] for name in sorted(topics))
        self.characters = sorted(set(text))
        index = {character: i for i, character in enumerate(self.characters)}
        numbers = torch.tensor([index[character] for character in text])
        end = len(numbers) * 9 // 10
        self.train = numbers[:end]
        self.validation = numbers[end:]

    def decode(self, numbers: Sequence[int]) -> str:
        """The text of these numbers."""
        return "".join(self.characters[number] for number in numbers)

    def frequency_loss(self) -> float:
        """The validation loss of a model that knows nothing but how frequent each character is."""
        counts = torch.bincount(self.train, minlength=len(self.characters)).double() + 1
        return F.nll_loss((counts / counts.sum()).log().expand(len(self.validation), -1), self.validation).item()


def windows(text: Tensor, batch: int, context: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Random pieces of the text, and the same pieces one character on."""
    starts = torch.randint(len(text) - context, (batch, 1), generator=generator)
    positions = starts + torch.arange(context + 1)
    pieces = text[positions]
    return pieces[:, :-1].contiguous(), pieces[:, 1:].contiguous()


class Block(nn.Module):
    """Causal attention and a feed-forward layer, each behind a layer norm and beside a residual connection."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.norm2 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        """x: batch, context, width."""
        batch, context, width = x.shape
        parts = self.qkv(self.norm1(x)).view(batch, context, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        attended = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.project(attended.transpose(1, 2).reshape(batch, context, width))
        return x + self.feed(self.norm2(x))


class GPT(nn.Module):
    """A decoder of `layers` blocks."""

    def __init__(self, characters: int, context: int = 64, width: int = 128, heads: int = 4, layers: int = 4):
        super().__init__()
        self.context = context
        self.token = nn.Embedding(characters, width)
        self.position = nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, characters)
        self.apply(self._initialize)

    @staticmethod
    def _initialize(module: nn.Module) -> None:
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)

    def forward(self, numbers: Tensor) -> Tensor:
        """Scores of the next character at each position of `numbers` (batch, context)."""
        positions = torch.arange(numbers.shape[1], device=numbers.device)
        return self.head(self.norm(self.blocks(self.token(numbers) + self.position(positions))))

    def loss(self, numbers: Tensor, following: Tensor) -> Tensor:
        """The mean cross-entropy of the characters that follow."""
        return F.cross_entropy(self(numbers).flatten(0, 1), following.flatten())


class Trainer:
    """Model, optimizer and text on one device."""

    def __init__(self, device: str = "hpu", batch_size: int = 8, lr: float = 1e-3, seed: int = 0, fused: bool = False):
        torch.manual_seed(seed)
        self.device = torch.device(device)
        self.batch_size = batch_size
        self.text = Text()
        self.order = torch.Generator().manual_seed(seed)
        self.model = GPT(len(self.text.characters)).to(self.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr, fused=True if fused else None)

    def train(self, steps: int, bar: tqdm[Any] | None = None) -> tuple[float, float]:
        """Train for some steps. Returns the mean loss and the seconds per step."""
        self.model.train()
        total = torch.zeros((), device=self.device)
        start = time.perf_counter()
        for _ in range(steps):
            numbers, following = windows(self.text.train, self.batch_size, self.model.context, self.order)
            numbers = numbers.to(self.device, non_blocking=True)
            following = following.to(self.device, non_blocking=True)

            self.optimizer.zero_grad(set_to_none=True)
            loss = self.model.loss(numbers, following)
            loss.backward()
            htcore.mark_step()
            self.optimizer.step()
            htcore.mark_step()

            total += loss.detach()  # read once, so that the host does not wait in each step
            if bar is not None:
                bar.update()
        mean_loss = total.item() / steps
        return mean_loss, (time.perf_counter() - start) / steps

    @torch.no_grad()
    def validation_loss(self, number: int = 20) -> float:
        """The mean loss over some pieces of the text that was kept for validation."""
        self.model.eval()
        order = torch.Generator().manual_seed(1)
        total = torch.zeros((), device=self.device)
        for _ in range(number):
            numbers, following = windows(self.text.validation, self.batch_size, self.model.context, order)
            total += self.model.loss(numbers.to(self.device), following.to(self.device))
        return total.item() / number

    @torch.no_grad()
    def write(self, length: int = 120, temperature: float = 0.7) -> str:
        """A text by the model: what it puts after the first characters of the validation text."""
        self.model.eval()
        context = self.model.context
        numbers = self.text.validation[:context].unsqueeze(0).to(self.device)
        for _ in range(length):
            scores = self.model(numbers[:, -context:])[:, -1]
            following = torch.multinomial(torch.softmax(scores / temperature, dim=-1), 1)
            numbers = torch.cat([numbers, following], dim=1)
        return self.text.decode(numbers[0, context:].tolist())


def main() -> None:
    """Train and validate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="hpu")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fused", action="store_true", help="fused AdamW on every device; on hpu it is the default")
    args = parser.parse_args()

    trainer = Trainer(args.device, args.batch_size, args.lr, args.seed, args.fused)
    loss = float("nan")
    stretch = 50
    with tqdm(total=args.steps, desc=f"GPT on {args.device}", unit="step", mininterval=1) as bar:
        for done in range(0, args.steps, stretch):
            loss, _ = trainer.train(min(stretch, args.steps - done), bar)
            bar.set_postfix(loss=f"{loss:.3f}")
    validation = trainer.validation_loss()
    print(
        f"GPT on {args.device}: training loss {loss:.3f}, validation loss {validation:.3f} nats a character "
        f"(perplexity {math.exp(validation):.1f}; by frequency alone {trainer.text.frequency_loss():.3f})"
    )
    print(f"it writes: {trainer.write()!r}")


if __name__ == "__main__":
    main()
