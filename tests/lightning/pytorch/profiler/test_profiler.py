"""Trainer's profiler "hpu"."""

import json
import re

import pytest
import torch
from torch.profiler import ProfilerActivity

from lightning_habana import HPUProfiler, roots
from tests.distributed.ranks import ranks
from tests.lightning.support import Classifier, loader, make_trainer

pytestmark = pytest.mark.filterwarnings("ignore:.*default schedule will be overridden")


def fit(profiler, folder, accelerator="hpu", model=None):
    trainer = make_trainer(folder, accelerator=accelerator, devices=1, max_epochs=1, profiler=profiler)
    trainer.fit(model or Classifier(), loader(8), loader(1))
    return trainer


def events_of(file):
    return json.loads(file.read_text())["traceEvents"]


class Marked(Classifier):
    """Names two actions of its own."""

    def training_step(self, batch, batch_idx):
        with self.trainer.profiler.profile("my_custom_action"):
            pass
        self.trainer.profiler.start("another_action")
        self.trainer.profiler.stop("another_action")
        return super().training_step(batch, batch_idx)


@pytest.mark.parametrize("profiler", ["hpu", "HPU", HPUProfiler])
def test_a_trace_without_any_argument(profiler, tmp_path):
    trainer = fit(profiler if isinstance(profiler, str) else profiler(), tmp_path, model=Marked())
    assert isinstance(trainer.profiler, HPUProfiler)
    assert ProfilerActivity.HPU in trainer.profiler._profiler_kwargs["activities"]
    files = sorted(tmp_path.glob("*.pt.trace.json"))
    assert files
    assert all(re.fullmatch(r"fit-\w+\.\d+\.pt\.trace\.json", file.name) for file in files)
    names = {event.get("name") for file in files for event in events_of(file)}
    assert {"aten::linear", "aten::cross_entropy_loss"} <= names
    assert {"[pl][profile]my_custom_action", "[pl][profile]another_action"} <= names
    assert any("run_training_batch" in name or "training_step" in name for name in names if name)


def test_a_report_with_numbers(tmp_path):
    fit(HPUProfiler(dirpath=tmp_path, filename="perf-logs", sort_by_key="hpu_time_total", row_limit=-1), tmp_path)
    report = (tmp_path / "fit-perf-logs.txt").read_text()
    row = next(line for line in report.splitlines() if line.split()[:1] == ["aten::linear"])
    assert re.search(r"\d+\.\d+[mu]s", row)
    assert int(row.split()[-1]) > 0


def test_on_the_cpu_only_the_cpu_is_recorded(tmp_path):
    trainer = fit(HPUProfiler(dirpath=tmp_path), tmp_path, accelerator="cpu")
    assert trainer.profiler._profiler_kwargs["activities"] == [ProfilerActivity.CPU]
    assert list(tmp_path.glob("*.pt.trace.json"))


@ranks(2, backend="hccl")
def test_each_rank_has_its_own(tmp_path):
    profiler = HPUProfiler(dirpath=tmp_path, filename="perf", row_limit=-1)
    trainer = make_trainer(tmp_path, accelerator="hpu", devices=2, max_epochs=1, profiler=profiler)
    trainer.fit(Classifier(), loader(12), loader(2))
    torch.distributed.barrier()
    rank = trainer.global_rank
    assert "aten::linear" in (tmp_path / f"fit-perf-{rank}.txt").read_text()
    assert list(tmp_path.glob(f"fit-perf-{rank}-*.pt.trace.json"))


def test_bad_arguments(monkeypatch):
    with pytest.raises(roots.MisconfigurationException, match="Found sort_by_key: age"):
        HPUProfiler(sort_by_key="age")
    with pytest.raises(roots.MisconfigurationException, match="it can only be one of"):
        make_trainer(accelerator="hpu", devices=1, profiler="gaudi")
    monkeypatch.setenv("HABANA_PROFILE", "1")
    with pytest.raises(roots.MisconfigurationException, match="HABANA_PROFILE='1', expected it unset"):
        HPUProfiler()
    monkeypatch.setenv("HABANA_PROFILE", "profile_api_light")
    assert HPUProfiler(use_hpu=True)._sort_by_key == "device_time_total"


def test_two_profilers(tmp_path):
    error = pytest.raises(roots.MisconfigurationException, match="while another profiler of PyTorch records")
    with error, torch.profiler.profile(activities=[ProfilerActivity.CPU]):
        fit(HPUProfiler(), tmp_path)
    assert isinstance(fit(HPUProfiler(), tmp_path).profiler, HPUProfiler)


def test_several_loggers(tmp_path):
    loggers = [roots.pytorch("loggers").CSVLogger(tmp_path, name=name) for name in ("first", "second")]
    trainer = make_trainer(tmp_path, accelerator="hpu", devices=1, max_epochs=1, profiler="hpu", logger=loggers)
    trainer.fit(Classifier(), loader(8))
    assert list((tmp_path / "first").rglob("*.pt.trace.json"))
    assert not list((tmp_path / "second").rglob("*.json"))
