"""HPU graphs inside Lightning: a captured step, captured modules, captured inference, torch.compile.

python examples/lightning/graphs.py             every way, one after another
python examples/lightning/graphs.py cacher      one of: step, callables, cacher, wrapped, control-flow, compile

Exits with 1 if a model did not learn.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from lightning.pytorch import LightningModule, Trainer, seed_everything
from model import CLASSES, PIXELS, Classifier, Digits

import habana_frameworks.torch.core as htcore

BATCH = 64
MIN_ACCURACY = 0.85


class CapturedStep(Classifier):
    """Forward, loss, backward and optimizer as one graph; each step copies its batch into it and replays it."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.graph: Any = None

    def on_fit_start(self) -> None:
        """Make the tensors that the graph reads."""
        self.static_images = torch.zeros(BATCH, PIXELS, device=self.device)
        self.static_labels = torch.zeros(BATCH, dtype=torch.long, device=self.device)

    def training_step(self, batch: list[torch.Tensor], batch_idx: int) -> torch.Tensor:
        """The first step runs as it is and makes the optimizer's state; the second is captured."""
        self.static_images.copy_(batch[0])
        self.static_labels.copy_(batch[1])
        if self.global_step == 0:
            loss = self.step()
        else:
            if self.graph is None:
                self.graph = htcore.hpu.HPUGraph()
                with htcore.hpu.graph(self.graph):
                    self.static_loss = self.step()
            self.graph.replay()
            loss = self.static_loss
        self.log("train_loss", loss)
        return loss

    def step(self) -> torch.Tensor:
        """A step on the static tensors."""
        optimizer: Any = self.optimizers()
        optimizer.zero_grad()
        loss = F.cross_entropy(self(self.static_images), self.static_labels)
        self.manual_backward(loss)
        optimizer.step()
        return loss.detach()


class ControlFlow(Classifier):
    """A branch that depends on chance: what is static on both sides of it is a graph each."""

    def __init__(self) -> None:
        super().__init__()
        self.head = torch.nn.Sequential(torch.nn.Linear(CLASSES, CLASSES))
        for module in (self.layers, self.head):
            htcore.hpu.ModuleCacher(max_graphs=4)(model=module, inplace=True)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits; in training half of the steps go through one more layer."""
        logits = self.layers(images)
        if self.training and torch.rand(()) > 0.5:
            logits = logits + self.head(logits)
        return logits  # type: ignore[no-any-return]


def callables() -> LightningModule:
    """make_graphed_callables: the layers as a callable with a graph for forward and one for backward."""
    model = Classifier().to("hpu")
    model.layers = htcore.hpu.make_graphed_callables(model.layers, (torch.randn(BATCH, PIXELS, device="hpu"),))
    return model


def cacher() -> LightningModule:
    """ModuleCacher: the same, with a graph for each shape."""
    model = Classifier()
    htcore.hpu.ModuleCacher(max_graphs=4)(model=model, inplace=True)
    return model


def compiled() -> LightningModule:
    """torch.compile, whose graphs are captured too."""
    return torch.compile(Classifier(), backend="hpu_backend")  # type: ignore[return-value]


WAYS: dict[str, Callable[[], LightningModule]] = {
    "step": CapturedStep,
    "callables": callables,
    "cacher": cacher,
    "wrapped": Classifier,  # wrap_in_hpu_graph is for inference: trained as usual, tested as a graph
    "control-flow": ControlFlow,
    "compile": compiled,
}


def train(way: str, epochs: int = 8) -> float:
    """The accuracy after training in this way."""
    seed_everything(0, verbose=False)
    model = WAYS[way]()
    data = Digits(BATCH)
    trainer = Trainer(
        accelerator="hpu",
        devices=1,
        max_epochs=epochs,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, data)
    if way == "wrapped":
        model = htcore.hpu.wrap_in_hpu_graph(model.to("hpu"), asynchronous=False, disable_tensor_cache=True)
    return trainer.test(model, data, verbose=False)[0]["accuracy"]


def main(argv: Sequence[str] | None = None) -> int:
    """Train in each way; 0 if every model learned."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ways", nargs="*", choices=[*WAYS, []])
    failed = False
    for way in parser.parse_args(argv).ways or WAYS:
        if way == "compile" and htcore.is_lazy():
            print("compile: for eager mode")
            continue
        accuracy = train(way)
        print(f"{way}: accuracy {accuracy:.1%}", flush=True)
        failed |= accuracy < MIN_ACCURACY
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
