"""Published results and their predictions: `python -m openhpu_predict.published [--fit] [--page FILE]`.

`--fit` finds the parameters from the rows that are marked as fitted, and runs no other row. Without it every row is
predicted with the parameters in force, and the table is printed; `--page` puts it into a document, and the error into
`data/errors.toml`, which each prediction quotes.
"""

import argparse
import dataclasses
import json
import math
import statistics
import sys
import time
import tomllib
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch

from openhpu_predict import cost, fake, fitting, load, network, record
from openhpu_predict.cost import Parameters
from openhpu_predict.devices import DATA, Device
from openhpu_predict.errors import PredictError
from openhpu_predict.models import CONFIGS, FP8, Classic, Llama
from openhpu_predict.prediction import DECODE, GROUPED, PREFILL, TRAINING
from openhpu_predict.recording import Node, Recording

_BUCKET = 128  # tokens; see data/rows.toml
# ZeRO-1 of a Llama: bytes per parameter that a card's share of the optimizer reads and writes (float32 master weight,
# two moments and gradient; the first three and the bf16 weight are written).
_OPTIMIZER_BYTES = 16 + 14
_BEGIN = "<!-- published: written by `python -m openhpu_predict.published --page` -->"
_END = "<!-- end of published -->"


@dataclasses.dataclass(frozen=True)
class Row:
    """A published result and its assumptions. `published` is in `unit`: ms, tokens/s or samples/s of all cards."""

    model: str
    device: str
    kind: str  # prefill, generate, first (token), later (token) or train
    batch: int
    input: int
    published: float
    unit: str
    fitted: bool
    source: str
    output: int = 0
    cards: int = 1
    tensor: int = 1
    pipeline: int = 1
    accumulate: int = 1
    again: bool = False
    precision: str = "fp8"  # of the weights and caches, or bf16
    all_logits: bool = False  # whether a prefill computes the logits of all positions

    def __post_init__(self) -> None:
        config = CONFIGS[self.model]
        tensor = ("tensor parallel", self.tensor)
        stages = ("pipeline", self.pipeline)
        for number, what, (kind, by) in (
            (self.cards, "cards", tensor),
            (config.heads, "heads", tensor),
            (config.layers, "layers", stages),
            (self.cards // self.tensor, f"cards of {self.cards} with tensor parallel {self.tensor}", stages),
        ):
            if number % by:
                raise PredictError(f"{self.name}: {number} {what} cannot be divided by {kind} {by}")

    @property
    def name(self) -> str:
        """Model, device and sizes."""
        lengths = f"{self.input}/{self.output}" if self.output else str(self.input)
        cards = f"{self.cards} x " if self.cards > 1 else ""
        precision = f", {self.precision}" if self.kind in ("first", "later") else ""
        return f"{self.kind} {self.model}, {cards}{self.device}{precision}, {lengths}, batch {self.batch}"


def rows() -> list[Row]:
    """The rows of `data/rows.toml`."""
    return [Row(**row) for row in tomllib.loads((DATA / "rows.toml").read_text())["row"]]


class Traced:
    """A row's recordings, from which its result follows for any parameters."""

    def __init__(self, row: Row) -> None:
        self.row = row
        self.recordings: dict[str, Recording] = {}
        self._parameters = 0
        {"prefill": self._prefill, "train": self._train}.get(row.kind, self._generate)()
        self._fused = {name: _fused(one) for name, one in self.recordings.items()}

    def result(self, device: Device, parameters: Parameters) -> float:
        """The prediction in the row's unit."""
        row = self.row
        seconds = {
            name: cost.schedule(nodes, kernels, device, parameters).seconds
            for name, (nodes, kernels) in self._fused.items()
        }
        if row.kind == "later":
            return seconds["token"] * 1e3
        first = seconds.get("prefill", 0.0) + parameters.first_token_seconds
        if row.kind in ("prefill", "first"):
            return first * 1e3
        if row.kind == "generate":
            return row.batch * row.output / (first + row.output * seconds["token"])
        replicas = row.cards // (row.tensor * row.pipeline)
        backward = seconds["step"] * 2 / 3
        same = range(0, row.tensor * replicas, row.tensor)  # cards with the same part of the model
        exchange = network.seconds("all_reduce", self.recordings["step"].gradient_bytes, same, device)
        step = row.accumulate * seconds["step"] + max(exchange - backward, 0.0)
        if row.pipeline > 1:  # the first and last micro-batches do not fill it; a card sends what a stage returns
            beyond = (0, row.tensor * replicas)
            sent = network.seconds("send", row.batch * row.input * CONFIGS[row.model].width * 2, beyond, device)
            step += (row.pipeline - 1) * (seconds["step"] + 2 * sent)
        if row.accumulate > 1:  # the others have the optimizer in the recording
            bandwidth = device.hbm_measured * parameters.hbm_efficiency
            step += self._parameters * _OPTIMIZER_BYTES / replicas / bandwidth
        return row.batch * row.accumulate * replicas * (row.input if row.unit == "tokens/s" else 1) / step

    def _model(self, train: bool) -> Llama:
        with fake():
            config = CONFIGS[self.row.model]
            stage = dataclasses.replace(config, layers=config.layers // self.row.pipeline)
            row = self.row
            model = Llama(stage, row.precision, train, row.tensor, row.again, row.all_logits)
        self._parameters = sum(one.numel() for one in model.parameters())
        return model

    def _words(self, length: int) -> torch.Tensor:
        with fake():
            return torch.zeros(self.row.batch, length, dtype=torch.int64)

    @torch.no_grad()
    def _prefill(self) -> None:
        self.recordings["prefill"] = record(
            self._model(False), self._words(self.row.input), steps=1, ranks=self.row.tensor
        )

    @torch.no_grad()
    def _generate(self) -> None:
        row = self.row
        config = CONFIGS[self.row.model]
        model = self._model(False)
        length = math.ceil((row.input + row.output / 2) / _BUCKET) * _BUCKET
        heads = config.key_heads // row.tensor
        dtype = FP8 if row.precision == "fp8" else torch.bfloat16
        for name, new, kept in (("prefill", row.input, row.input), ("token", 1, length)):
            with fake():
                size = (row.batch, heads, kept, config.width // config.heads)
                caches = [
                    (torch.empty(size, dtype=dtype), torch.empty(size, dtype=dtype)) for _ in range(config.layers)
                ]
                at = torch.zeros(new, dtype=torch.int64)
            self.recordings[name] = record(model, self._words(new), caches, at, steps=1, ranks=row.tensor)

    def _train(self) -> None:
        if self.row.model.startswith("llama"):
            model = self._model(True)
            self.recordings["step"] = record(
                lambda words: model(words).backward(), self._words(self.row.input), steps=2, ranks=self.row.tensor
            )
            return
        with fake():
            classic = Classic(CONFIGS[self.row.model], causal=self.row.model.startswith("gpt"))
        optimizer = torch.optim.AdamW(classic.parameters(), foreach=True)

        def step(words: torch.Tensor) -> None:
            with torch.autocast("hpu", torch.bfloat16):
                loss = classic(words)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

        self.recordings["step"] = record(step, self._words(self.row.input), steps=2)


def _fused(recording: Recording) -> tuple[list[Node], list[cost.Kernel]]:
    begin, end = recording.last_step()
    nodes = recording.nodes[begin:end]
    return nodes, cost.fuse(nodes, recording.blocks, begin)


def fit(traced: list[Traced]) -> Parameters:
    """The parameters with the least sum of squared relative errors (logarithms), by rounds of a search along each."""
    # Where the search begins, and the largest value.
    limits = {
        "matmul_efficiency": (0.93, 1.0),
        "hbm_efficiency": (1.1, 1.25),  # at most 96 % of Gaudi 2's bandwidth
        "tpc_efficiency": (0.43, 1.0),
        "kernel_seconds": (1.4e-6, 1e-4),
        "first_token_seconds": (3.3e-3, 1e-1),
    }
    devices = {one.row.device: load(one.row.device) for one in traced}

    def loss(tried: dict[str, float]) -> float:
        parameters = Parameters(**tried)
        return sum(math.log(one.result(devices[one.row.device], parameters) / one.row.published) ** 2 for one in traced)

    start = {key: first for key, (first, _) in limits.items()}
    values = fitting.search(start, {key: most for key, (_, most) in limits.items()}, loss)
    return Parameters(**{key: float(f"{value:.3g}") for key, value in values.items()})


def table(found: list[tuple[Row, float]], before: dict[str, float] | None = None) -> str:
    """Predicted, published and error of each row, as Markdown, and the errors by kind.

    `before`: results of earlier parameters by the row's name, for a column with their error.
    """
    head = "| row | published | predicted | error |"
    lines = [head + " error before |" * bool(before), "|---|---:|---:|---:|" + "---:|" * bool(before)]
    for row, result in found:
        mark = " (fitted)" if row.fitted else ""
        error = result / row.published - 1
        shown = float(f"{result:.4g}")
        line = f"| {row.name}{mark} | {row.published:,g} {row.unit} | {shown:,g} | {error:+.0%} |"
        if before is not None:
            line += f" {before[row.name] / row.published - 1:+.0%} |" if row.name in before else " |"
        lines.append(line)
    lines += ["", "| kind | rows | median error | worst |", "|---|---:|---:|---:|"]
    for one in errors(found):
        place = f", {one['device']}" if one["device"] else ""
        mark = " (fitted)" if one["fitted"] else ""
        lines.append(f"| {one['name']}{place}{mark} | {one['rows']} | {one['median']:.0%} | {one['worst']:.0%} |")
    return "\n".join(lines)


def kind_of_row(row: Row) -> str:
    """The kind of a row's steps, as `prediction.kind_of` names it."""
    if row.kind == "train":
        return TRAINING
    if row.kind in ("prefill", "first"):
        return PREFILL
    config = CONFIGS[row.model]
    return GROUPED if config.key_heads < config.heads else DECODE


def errors(found: list[tuple[Row, float]]) -> list[dict[str, Any]]:
    """The median and worst error of all rows, of each kind, and of each kind on each device.

    Rows that were fitted count only where a kind has no others.
    """
    kinds: dict[tuple[str, str], list[tuple[Row, float]]] = defaultdict(list)
    for row, result in found:
        error = abs(result / row.published - 1)
        kind = kind_of_row(row)
        for key in (("all", ""), (kind, ""), (kind, row.device)):
            kinds[key].append((row, error))
    rows = []
    for (kind, device), those in sorted(kinds.items()):
        fresh = [error for row, error in those if not row.fitted]
        counted = fresh or [error for _, error in those]
        rows.append(
            {
                "name": kind,
                "device": device,
                "median": round(statistics.median(counted), 3),
                "worst": round(max(counted), 3),
                "rows": len(counted),
                "fitted": not fresh,
            }
        )
    return rows


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m openhpu_predict.published", description="Predicts published rows.")
    parser.add_argument("--fit", action="store_true", help="fit the parameters to the rows marked as fitted, alone")
    parser.add_argument("--page", metavar="FILE", type=Path, help="write the table into this document")
    parser.add_argument(
        "--before", metavar="FILE", type=Path, help="earlier results (JSON), for a column of their errors"
    )
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the results by row there")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    if options.fit:
        _write_fit(began)
        return 0
    parameters = Parameters.fitted()
    found = []
    for row in rows():
        found.append((row, Traced(row).result(load(row.device), parameters)))
        print(f"{time.monotonic() - began:6.1f} s  {row.name}", file=sys.stderr)
    before = json.loads(options.before.read_text()) if options.before else None
    print(table(found, before))
    if options.json:
        options.json.write_text(json.dumps({row.name: result for row, result in found}, indent=1) + "\n")
    if options.page:
        _write_errors(errors(found))
        page = options.page.read_text()
        head, _, rest = page.partition(_BEGIN)
        options.page.write_text(f"{head}{_BEGIN}\n\n{table(found, before)}\n\n{_END}{rest.partition(_END)[2]}")
    return 0


def _write_fit(began: float) -> None:
    """Fit the parameters, and write them into their file. `began`: the time on the clock."""
    fitted = [Traced(row) for row in rows() if row.fitted]
    print(f"{time.monotonic() - began:6.1f} s  traced", file=sys.stderr)
    parameters = fit(fitted)
    text = "".join(f"{key} = {value!r}\n" for key, value in dataclasses.asdict(parameters).items())
    path = DATA / "parameters.toml"
    path.write_text(path.read_text().partition("\n")[0] + "\n" + text)
    print(text + table([(one.row, one.result(load(one.row.device), parameters)) for one in fitted]))


def _write_errors(kinds: list[dict[str, Any]]) -> None:
    text = "# Written by `python -m openhpu_predict.published --page`.\n"
    for one in kinds:
        values = [f"{key} = {json.dumps(value)}\n" for key, value in one.items()]
        text += "\n[[kind]]\n" + "".join(values)
    (DATA / "errors.toml").write_text(text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
