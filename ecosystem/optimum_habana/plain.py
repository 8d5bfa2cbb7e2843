"""`python -m ecosystem.optimum_habana.plain FOLDER`: what the same transformers, not adapted, computes on the CPU.

In a process of its own, as adapting changes transformers' classes. A file for each model.
"""

import sys
from pathlib import Path

import torch

from ecosystem.both import shaken
from ecosystem.optimum_habana.support import KEYS, LENGTH, arguments, make
from ecosystem.transformers.models import Model
from ecosystem.transformers.support import LABELS


def expected(model: Model) -> dict[str, object]:
    """Weights, the loss, a training step's loss, gradients, and the tokens of generation."""
    made = shaken(make(model), 0.05)
    weights = {name: value.clone() for name, value in made.state_dict().items()}
    given = arguments(model, "cpu")
    with torch.no_grad():
        inference = made.eval()(**given)["loss"]
    tokens = None
    if model.generates:
        prompt = {name: value for name, value in given.items() if name not in LABELS}
        tokens = made.generate(**prompt, **LENGTH).tolist()
    loss = made.train()(**given)["loss"]
    loss.backward()
    gradients = {name: p.grad for name, p in made.named_parameters() if p.grad is not None}
    return {"weights": weights, "inference": inference, "loss": loss.detach(), "gradients": gradients, "tokens": tokens}


def main() -> None:
    for name, model in KEYS.items():
        torch.save(expected(model), Path(sys.argv[1]) / f"{name}.pt")


if __name__ == "__main__":
    main()
