"""Makes the recordings of this device: `python recordings/make.py`, with `openhpu` and `openhpu-record` installed.

Those that are faulty record a device that does one thing wrong, which lies under the recorder as a dispatch mode.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

FOLDER = Path(__file__).parent
CALLS = 400  # of the probe; a file of all calls has 2.5 MB
_FAULTY = 60  # of a faulty probe, beside those that the fault concerns
_SECONDS = 300.0
_LAZY = {"eager": "0", "lazy": "1"}


def train(folder: Path) -> None:
    """A small network, which is recorded."""
    import torch

    import habana_frameworks.torch.core as htcore
    import openhpu_record

    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Embedding(20, 16),
        torch.nn.LayerNorm(16),
        torch.nn.Linear(16, 24),
        torch.nn.GELU(),
        torch.nn.Linear(24, 20),
    ).to("hpu")
    optimizer = torch.optim.AdamW(net.parameters())
    words = (torch.arange(24) % 20).reshape(4, 6).to("hpu")
    with openhpu_record.record(folder / "made.zip", steps=[2]):
        for _ in range(3):
            loss = torch.nn.functional.cross_entropy(net(words).flatten(0, 1), words.flatten())
            loss.backward()
            htcore.mark_step()
            optimizer.step()
            optimizer.zero_grad()
            htcore.mark_step()


def borders(folder: Path) -> None:
    """An HPU graph that is replayed, and operators beside it."""
    import torch

    import habana_frameworks.torch as ht
    import openhpu_record

    with openhpu_record.record(folder / "made.zip", steps=[0]):
        given = torch.linspace(0, 1, 12).to("hpu")
        graph = ht.hpu.HPUGraph()
        with ht.hpu.graph(graph):
            made = (given * 2).tanh()
        given.copy_(torch.linspace(1, 2, 12))
        graph.replay()
        (made + 1).sum().item()


def faulty(folder: Path, fault: str) -> None:
    """A probe of a device that does one thing wrong."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    from openhpu_record import calls
    from openhpu_record.device import prepared
    from openhpu_record.environment import environment
    from openhpu_record.made import made
    from openhpu_record.probe.running import probe, some
    from openhpu_record.probe.table import probe_calls
    from openhpu_record.writing import Writer, pack

    class Faulty(TorchDispatchMode):
        """What lies under the recorder."""

        before: dict[Any, torch.Tensor] = {}  # noqa: RUF012  # what the memory of a result held

        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            found = function(*args, **(kwargs or {}))
            name = function.overloadpacket.__name__
            if fault == "rounded-sum" and name == "sum" and found.dtype is torch.float32:
                return found.bfloat16().float()
            if fault == "missing-wait" and name == "bmm":
                key = found.dtype, found.shape
                early = self.before.get(key, torch.zeros_like(found))
                self.before[key] = found
                return early
            return found

    def other_seed(rule: str, seed: int, *given: Any) -> torch.Tensor:
        return made(rule, seed + (fault == "another-seed" and rule == "rounding"), *given)

    prepared("hpu")
    concerns = {"rounded-sum": "aten.sum.", "missing-wait": "aten.bmm."}.get(fault, "aten.mm.")
    chosen = {call["id"]: call for call in some(_FAULTY)}
    chosen |= {call["id"]: call for call in probe_calls() if call["op"].startswith(concerns)}
    part = folder / "made.part"
    writer = Writer(part, prefix="eager-")
    writer.manifest(what="probe", depth="calls", environment=environment("hpu"))
    with Faulty(), mock.patch.object(calls, "made", other_seed):
        probe(writer, "hpu", "eager", _SECONDS, list(chosen.values()))
    writer.close()
    pack(part, folder / "made.zip", {"code": 0, "why": ""})


def main() -> None:
    """Each recording in a process of its own."""
    rows = [line.split("\t") for line in (FOLDER / "manifest.tsv").read_text().splitlines()[1:]]
    for name, kind, how, mode, *_ in rows:
        if kind == "card":
            continue
        with tempfile.TemporaryDirectory() as folder:
            made = Path(folder, "made.zip")
            if how == "probe":
                argv = ["-m", "openhpu_record.command", "probe", "--calls", str(CALLS), "-o", str(made)]
            else:
                argv = [__file__, how, folder]
            variables = {**os.environ, "PT_HPU_LAZY_MODE": _LAZY.get(mode, "0")}
            subprocess.run([sys.executable, *argv], env=variables, check=True, timeout=_SECONDS)
            (FOLDER / name).write_bytes(made.read_bytes())
        print(name)


if __name__ == "__main__":
    if sys.argv[1:]:
        how, place = sys.argv[1:]
        made_by: dict[str, Any] = {"train": train, "borders": borders}
        made_by.get(how, lambda folder: faulty(folder, how))(Path(place))
    else:
        main()
