"""Published results and their predictions: `python -m openhpu_predict.published [--fit] [--page FILE]`.

`--fit` finds the parameters from the rows that are marked as fitted, and runs no other row. Without it every row is
predicted with the parameters in force, and the table is printed; `--page` puts it into a document, and the error into
`data/errors.toml`, which each prediction quotes.
"""

import argparse
import dataclasses
import math
import statistics
import sys
import time
import tomllib
from pathlib import Path

import torch

from openhpu_predict import cost, fake, load, network, record
from openhpu_predict.cost import Parameters
from openhpu_predict.devices import DATA, Device
from openhpu_predict.errors import PredictError
from openhpu_predict.models import CONFIGS, FP8, Classic, Llama
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
    kind: str  # prefill, generate or train
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
        return f"{self.kind} {self.model}, {cards}{self.device}, {lengths}, batch {self.batch}"


def rows() -> list[Row]:
    """The rows of `data/rows.toml`."""
    return [Row(**row) for row in tomllib.loads((DATA / "rows.toml").read_text())["row"]]


class Traced:
    """A row's recordings, from which its result follows for any parameters."""

    def __init__(self, row: Row) -> None:
        self.row = row
        self.recordings: dict[str, Recording] = {}
        self._parameters = 0
        getattr(self, f"_{row.kind}")()
        self._fused = {name: _fused(one) for name, one in self.recordings.items()}

    def result(self, device: Device, parameters: Parameters) -> float:
        """The prediction in the row's unit."""
        row = self.row
        seconds = {
            name: cost.schedule(nodes, kernels, device, parameters).seconds
            for name, (nodes, kernels) in self._fused.items()
        }
        if row.kind == "prefill":
            return seconds["prefill"] * 1e3
        if row.kind == "generate":
            return row.batch * row.output / (seconds["prefill"] + row.output * seconds["token"])
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
            bandwidth = device.hbm_bandwidth * parameters.hbm_efficiency
            step += self._parameters * _OPTIMIZER_BYTES / replicas / bandwidth
        return row.batch * row.accumulate * replicas * (row.input if row.unit == "tokens/s" else 1) / step

    def _model(self, train: bool) -> Llama:
        with fake():
            config = CONFIGS[self.row.model]
            stage = dataclasses.replace(config, layers=config.layers // self.row.pipeline)
            model = Llama(stage, "fp8", train, self.row.tensor, self.row.again)
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
        for name, new, kept in (("prefill", row.input, row.input), ("token", 1, length)):
            with fake():
                size = (row.batch, heads, kept, config.width // config.heads)
                caches = [(torch.empty(size, dtype=FP8), torch.empty(size, dtype=FP8)) for _ in range(config.layers)]
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
    values = {"matmul_efficiency": 0.9, "hbm_efficiency": 0.8, "kernel_seconds": 2e-6}
    most = {"matmul_efficiency": 1.0, "hbm_efficiency": 1.0, "kernel_seconds": 1e-4}
    devices = {one.row.device: load(one.row.device) for one in traced}

    def loss(tried: dict[str, float]) -> float:
        parameters = Parameters(**tried)
        return sum(math.log(one.result(devices[one.row.device], parameters) / one.row.published) ** 2 for one in traced)

    best = loss(values)
    width = 0.3
    while width > 0.005:
        improved = False
        for key in values:
            for factor in (1 - width, 1 + width):
                tried = {**values, key: min(values[key] * factor, most[key])}
                if (found := loss(tried)) < best - 1e-9:
                    best = found
                    values = tried
                    improved = True
        width = width if improved else width / 2
    return Parameters(**{key: float(f"{value:.3g}") for key, value in values.items()})


def table(found: list[tuple[Row, float]]) -> str:
    """Predicted, published and error of each row, as Markdown, and the errors of the rows that were not fitted."""
    lines = ["| row | published | predicted | error |", "|---|---:|---:|---:|"]
    for row, result in found:
        mark = " (fitted)" if row.fitted else ""
        error = result / row.published - 1
        shown = float(f"{result:.4g}")
        lines.append(f"| {row.name}{mark} | {row.published:,g} {row.unit} | {shown:,g} | {error:+.0%} |")
    if errors := _errors(found):
        lines += [
            "",
            f"Rows that were not fitted: {len(errors)}. Median error {statistics.median(errors):.0%}, worst "
            f"{max(errors):.0%}.",
        ]
    return "\n".join(lines)


def _errors(found: list[tuple[Row, float]]) -> list[float]:
    return [abs(result / row.published - 1) for row, result in found if not row.fitted]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m openhpu_predict.published", description="Predicts published rows.")
    parser.add_argument("--fit", action="store_true", help="fit the parameters to the rows marked as fitted, alone")
    parser.add_argument("--page", metavar="FILE", type=Path, help="write the table into this document")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    if options.fit:
        fitted = [Traced(row) for row in rows() if row.fitted]
        print(f"{time.monotonic() - began:6.1f} s  traced", file=sys.stderr)
        parameters = fit(fitted)
        text = "".join(f"{key} = {value!r}\n" for key, value in dataclasses.asdict(parameters).items())
        path = DATA / "parameters.toml"
        path.write_text(path.read_text().partition("\n")[0] + "\n" + text)
        print(text + table([(one.row, one.result(load(one.row.device), parameters)) for one in fitted]))
        return 0
    parameters = Parameters.fitted()
    found = []
    for row in rows():
        found.append((row, Traced(row).result(load(row.device), parameters)))
        print(f"{time.monotonic() - began:6.1f} s  {row.name}", file=sys.stderr)
    print(table(found))
    if options.page:
        errors = _errors(found)
        (DATA / "errors.toml").write_text(
            "# Written by `python -m openhpu_predict.published --page`.\n"
            f"median = {statistics.median(errors):.3f}\nworst = {max(errors):.3f}\nrows = {len(errors)}\n"
        )
        before, _, rest = options.page.read_text().partition(_BEGIN)
        options.page.write_text(f"{before}{_BEGIN}\n\n{table(found)}\n\n{_END}{rest.partition(_END)[2]}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
