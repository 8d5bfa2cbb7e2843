"""`openhpu predict --from recording.zip`: what a card took for each operator beside the prediction, and a fit to it."""

import dataclasses
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from openhpu_predict import cost, fake, fitting
from openhpu_predict.cost import Kernel, Parameters
from openhpu_predict.devices import DATA, Device
from openhpu_predict.errors import PredictError
from openhpu_predict.recording import Node, Recorder

if TYPE_CHECKING:
    from openhpu_record.reading import Recording

_MOST_FITTED = 200  # calls that a fit looks at, evenly
_MOST_SLOW = 40  # and those that took the longest
_FEWEST = 3  # calls that a fitted figure has to bound
_MOST_ROWS = 40
# Figures that the time of a single operator shows, by what bounds it.
_FIGURES = ("eager_launch", "hbm_measured", "mme_bf16_measured", "mme_fp8_measured", "mme_fp32_peak", "tpc_bf16_peak")
_HALF = {torch.bfloat16, torch.float16}


@dataclasses.dataclass
class Measured:
    """A call of a recording: what the card took for it, and what its prediction is made of."""

    call: dict[str, Any]
    seconds: float
    nodes: list[Node]
    kernels: list[Kernel]

    def predicted(self, device: Device, parameters: Parameters) -> float:
        """Seconds between two synchronisations, in eager mode."""
        for kernel in self.kernels:
            kernel.work = {}  # of another device
        return cost.schedule(self.nodes, self.kernels, device, parameters, eager=True).seconds

    def figure(self, launch: float = 0.0) -> str:
        """The figure of the device that bounds the call, as it was predicted last; "" for none that a fit changes.

        `launch`: the seconds of a launch, below which a kernel's own time is not seen.
        """
        kernel = max(self.kernels, key=lambda one: one.seconds)
        if kernel.seconds < launch:
            return "eager_launch"
        if kernel.bound != "MME":
            return {"HBM": "hbm_measured", "TPC": "tpc_bf16_peak"}.get(kernel.bound, "")
        dtype = self.nodes[kernel.nodes[0]].dtype
        if dtype.itemsize == 1:
            return "mme_fp8_measured"
        return "mme_bf16_measured" if dtype in _HALF else "mme_fp32_peak"


def report(path: Path, device: Device, target: Path | None) -> str:
    """The text. `target`: a new device file with the fitted figures. Raises PredictError."""
    if target is not None:
        _check_target(target)
    parameters = Parameters.fitted()
    found = _read(path)
    before = [one.predicted(device, parameters) for one in found]
    fitted, values, figures = _fit(found, device, parameters)
    after = [one.predicted(fitted, parameters) for one in found]
    lines = [f"{path.name} beside {device.name}: {len(found)} calls of eager mode", *_operators(found, before, after)]
    lines += ["figures that the calls show:"]
    for name, value in values.items():
        lines.append(
            f"  {name}: {getattr(device, name):.4g} before, {value:.4g} fitted ({figures[name]} calls are bound by it)"
        )
    for what, times in (("before", before), ("after the fit", after)):
        errors = [abs(time / one.seconds - 1) for time, one in zip(times, found, strict=True)]
        lines.append(f"error {what}: median {statistics.median(errors):.0%}, worst {max(errors):.0%}")
    if target is not None:
        _write(target, device, values, path.name)
        lines.append(f"written to {target}: openhpu predict --device {target}")
    return "\n".join(lines)


def _recording(path: Path) -> "Recording":
    try:
        from openhpu_record.errors import RecordError
        from openhpu_record.reading import Recording
    except ModuleNotFoundError:
        raise PredictError(
            "--from reads a recording by openhpu-record, which is not installed; in a clone of OpenHPU: "
            "pip install ./openhpu-record"
        ) from None
    try:
        return Recording(path)
    except RecordError as error:
        raise PredictError(str(error)) from None


def device_of(path: Path) -> str:
    """The device of a recording, as a device file is named; gaudi3 where it names none."""
    with _recording(path) as recording:
        name = str(recording.manifest.get("environment", {}).get("name", "")).lower()
    return name if (DATA / f"{name}.toml").exists() else "gaudi3"


def _read(path: Path) -> list[Measured]:
    """The calls that a card took a time for. Those that need values are left out."""
    from openhpu_record import calls
    from openhpu_record.errors import RecordError

    with _recording(path) as recording:
        timed = [call for call in recording.events("call") if call.get("seconds") and call["mode"] == "eager"]
    recorder = Recorder(None)
    done = []
    with recorder.watching() as found:
        for call in timed:
            begin = len(found.nodes)
            try:
                function = calls.operator(call["op"])
                args, kwargs = calls.arguments(call, "hpu", _fake_tensor)
                with fake():
                    function(*args, **kwargs)
            except (RecordError, PredictError, RuntimeError, NotImplementedError, TypeError):
                del found.nodes[begin:]
            nodes = found.nodes[begin:]
            recorder.end_step()
            if nodes:
                done.append((call, begin, nodes))
    if not done:
        raise PredictError(f"{path} has no call of eager mode with a time; expected a recording of gaudi-record")
    return [
        Measured(call, call["seconds"], nodes, cost.fuse(nodes, found.blocks, begin, eager=True))
        for call, begin, nodes in done
    ]


def _fake_tensor(given: dict[str, Any]) -> torch.Tensor:
    dtype = getattr(torch, given["dtype"])
    with fake():
        if given.get("device") == "cpu":
            return torch.empty(given["shape"], dtype=dtype, device="cpu")
        if "stride" in given:
            return torch.empty_strided(given["shape"], given["stride"], dtype=dtype)
        return torch.empty(given["shape"], dtype=dtype)


def _fit(
    found: list[Measured], device: Device, parameters: Parameters
) -> tuple[Device, dict[str, float], Counter[str]]:
    """The figures with the least sum of relative errors (logarithms), and how many calls each bounds.

    A figure that bounds few calls stays as it was.
    """
    slow = sorted(found, key=lambda one: -one.seconds)[:_MOST_SLOW]
    some = [*slow, *found[:: max(1, len(found) // _MOST_FITTED)]]
    used = {"eager_launch", *(one.figure() for one in found)}
    names = [name for name in _FIGURES if name in used]

    def loss(tried: dict[str, float]) -> float:
        other = _changed(device, tried)
        return sum(abs(math.log(one.predicted(other, parameters) / one.seconds)) for one in some)

    start = {name: getattr(device, name) for name in names}
    values = fitting.search(start, dict.fromkeys(names, math.inf), loss)
    fitted = _changed(device, values)
    for one in found:
        one.predicted(fitted, parameters)
    figures = Counter(one.figure(fitted.eager_launch) for one in found)
    values = {name: value for name, value in values.items() if figures[name] >= _FEWEST}
    return _changed(device, values), values, figures


def _changed(device: Device, values: dict[str, float]) -> Device:
    figures: dict[str, Any] = dict(values)
    return dataclasses.replace(device, **figures)


def _operators(found: list[Measured], before: list[float], after: list[float]) -> Iterator[str]:
    """Of each operator: its calls, and the medians of what was measured and predicted; the slowest first."""
    groups: defaultdict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for one, first, second in zip(found, before, after, strict=True):
        groups[one.call["op"]].append((one.seconds, first, second))
    yield f"{'operator':<44} {'calls':>5} {'measured us':>12} {'predicted':>10} {'fitted':>10}"
    rows = sorted(groups.items(), key=lambda group: -sum(times[0] for times in group[1]))
    for op, times in rows[:_MOST_ROWS]:
        measured, predicted, fitted = (statistics.median(column) * 1e6 for column in zip(*times, strict=True))
        yield f"{op:<44} {len(times):>5} {measured:>12.1f} {predicted:>10.1f} {fitted:>10.1f}"
    if len(rows) > _MOST_ROWS:
        yield f"... and {len(rows) - _MOST_ROWS} operators more"


def _check_target(target: Path) -> None:
    if target.suffix != ".toml" or target.exists() or target.resolve().parent == DATA.resolve():
        raise PredictError(f"--fit is {str(target)!r}; expected a new .toml file, not one of openhpu-predict's own")
    if not target.parent.is_dir():
        raise PredictError(f"--fit: there is no folder {str(target.parent)!r} to write into")


def _write(target: Path, device: Device, values: dict[str, float], name: str) -> None:
    lines = [f"# {device.name} with figures that were fitted to a recording.", "", "[figures]"]
    for key, source in device.sources.items():
        value = getattr(device, key)
        if key in values:
            source = f"fitted to {name} by openhpu predict --from; it was {value:.6g}"
            value = float(f"{values[key]:.6g}")
        quoted = source.replace("\\", "\\\\").replace('"', '\\"')
        lines.append(f'{key} = {{ value = {value!r}, source = "{quoted}" }}')
    try:
        target.write_text("\n".join([*lines, ""]))
    except OSError as error:
        raise PredictError(f"--fit: {target} can't be written: {error.strerror}") from None
