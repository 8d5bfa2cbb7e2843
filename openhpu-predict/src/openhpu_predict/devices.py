"""Devices: figures from a TOML file, each with its source."""

import dataclasses
import math
import tomllib
from pathlib import Path

from openhpu_predict.errors import PredictError

DATA = Path(__file__).parent / "data"


@dataclasses.dataclass(frozen=True)
class Device:
    """The figures of a device in SI units: seconds, bytes, bytes/s, FLOP/s.

    `mme_*_measured` is the rate of the largest measured matmul, `*_peak` the rate that the vendor names.
    `mme_sustained` is the share of the measured rates that long runs of products keep. `hbm_measured` is the rate at
    which a published decode moved its weights. The network's figures are those of one direction. A device without links
    has zeros there, and nodes of one card.
    """

    name: str
    mme_count: float
    mme_rows: float
    mme_columns: float
    mme_bf16_peak: float
    mme_fp8_peak: float
    mme_fp32_peak: float
    mme_bf16_measured: float
    mme_fp8_measured: float
    mme_sustained: float
    tpc_bf16_peak: float
    hbm_bytes: float
    hbm_bandwidth: float
    hbm_measured: float
    small_access_bytes: float
    small_access_penalty: float
    host_bandwidth: float
    port_bandwidth: float
    ports_per_peer: float
    hop_latency: float
    node_cards: float
    ports_out: float
    node_latency: float
    graph_launch: float
    eager_launch: float
    compile_per_operator: float
    sources: dict[str, str] = dataclasses.field(default_factory=dict, compare=False)

    @property
    def linked(self) -> bool:
        """Whether cards can be joined."""
        return self.port_bandwidth > 0

    def require_links(self) -> None:
        """For several cards. Raises PredictError."""
        if not self.linked:
            raise PredictError(
                f"the device {self.name} has no links, which several cards need; expected the figures "
                f"{', '.join(LINKS)} in its file, or one card"
            )

    @property
    def assumed(self) -> list[str]:
        """The keys of the figures that nobody published."""
        return [key for key, source in self.sources.items() if source.startswith("assumed")]


# The figures of the network. A file has all of them or none.
LINKS = ("port_bandwidth", "ports_per_peer", "hop_latency", "node_cards", "ports_out", "node_latency")
_UNLINKED = dict.fromkeys(LINKS, 0.0) | {"node_cards": 1.0}
_KEYS = [field.name for field in dataclasses.fields(Device) if field.name not in ("name", "sources")]


def load(device: str | Path | Device) -> Device:
    """The device of that name (gaudi2, gaudi3), or of a TOML file. Raises PredictError, which names file and key."""
    if isinstance(device, Device):
        return device
    path = Path(device) if str(device).endswith(".toml") else DATA / f"{device}.toml"
    known = sorted(one.stem for one in DATA.glob("gaudi*.toml"))
    try:
        table = tomllib.loads(path.read_text())
    except OSError:
        raise PredictError(f"there is no device {str(device)!r}; expected {', '.join(known)} or a .toml file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PredictError(f"{path} is not a TOML file: {error}") from None
    figures = table.get("figures")
    if not isinstance(figures, dict):
        raise PredictError(f"{path}: the table [figures] is missing")
    if unknown := sorted(figures.keys() - set(_KEYS)):
        raise PredictError(f"{path}: unknown figure {unknown[0]!r}; expected {', '.join(_KEYS)}")
    linked = not figures.keys().isdisjoint(LINKS)
    values = {} if linked else dict(_UNLINKED)
    sources: dict[str, str] = {}
    for key in _KEYS:
        if key in values:
            continue
        figure = figures.get(key)
        if figure is None:
            raise PredictError(f"{path}: the figure {key!r} is missing")
        value, source = (figure.get("value"), figure.get("source")) if isinstance(figure, dict) else (figure, None)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not (0 < value < math.inf):
            raise PredictError(f"{path}: {key!r} is {value!r}; expected a number above 0")
        if not isinstance(source, str) or not source:
            raise PredictError(f'{path}: {key!r} has no source; expected {{ value = ..., source = "..." }}')
        values[key] = float(value)
        sources[key] = source
    return Device(path.stem, **values, sources=sources)
