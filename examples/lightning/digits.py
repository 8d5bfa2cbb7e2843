"""Handwritten digits with Trainer: any number of devices, strategy and precision; profiled, if asked for.

python examples/lightning/digits.py
python examples/lightning/digits.py --devices 2 --precision bf16-mixed
python examples/lightning/digits.py --devices 2 --strategy hpu_fsdp
python examples/lightning/digits.py --profiler hpu            traces in lightning_logs, for TensorBoard or Perfetto

Exits with 1 if the model did not learn.
"""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from lightning.pytorch import Trainer, seed_everything
from lightning.pytorch.loggers import CSVLogger
from model import Classifier, Digits

MIN_ACCURACY = 0.85


def main(argv: Sequence[str] | None = None) -> int:
    """Train and test; 0 if the model learned."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--accelerator", default="hpu")
    parser.add_argument("--devices", default="1")
    parser.add_argument("--strategy", default="auto")
    parser.add_argument("--precision", default="32-true")
    parser.add_argument("--profiler")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--folder", default=".", help="where logs, checkpoints and traces go")
    args = parser.parse_args(argv)
    seed_everything(0)
    precision: Any = args.precision
    trainer = Trainer(
        accelerator=args.accelerator,
        devices=args.devices,
        strategy=args.strategy,
        precision=precision,
        profiler=args.profiler,
        max_epochs=args.epochs,
        default_root_dir=args.folder,
        logger=CSVLogger(args.folder),
        log_every_n_steps=5,
    )
    trainer.fit(Classifier(), Digits(batch_size=32))
    accuracy = trainer.callback_metrics["accuracy"].item()
    if trainer.is_global_zero:
        print(f"{trainer.strategy.__class__.__name__} on {trainer.world_size}: accuracy {accuracy:.1%}")
    return 0 if accuracy >= MIN_ACCURACY else 1


if __name__ == "__main__":
    sys.exit(main())
