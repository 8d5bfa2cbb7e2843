"""Gaudi's metrics of a training with Trainer."""

import torch
from habana_frameworks.torch.hpu.metrics import metric_global, metric_localcontext

from lightning_habana import roots
from tests.lightning.support import Classifier, loader, make_trainer


class Logged(roots.pytorch("callbacks").Callback):
    """Logs a metric at the end of each epoch."""

    def __init__(self):
        self.counts = []

    def on_train_batch_end(self, *args):
        torch.linalg.svdvals(torch.eye(2, device="hpu"))

    def on_train_epoch_end(self, trainer, module):
        count = dict(metric_global("cpu_fallback").stats())["TotalNumber"]
        module.log("cpu_fallbacks", float(count))
        self.counts.append(count)


def test_a_callback_logs_them():
    logged = Logged()
    trainer = make_trainer(accelerator="hpu", devices=1, callbacks=[logged])
    with metric_localcontext("cpu_fallback") as during:
        trainer.fit(Classifier(), loader(), loader(2))
    first, second = logged.counts
    assert 0 < first < second == trainer.callback_metrics["cpu_fallbacks"]
    assert dict(during.stats())["TotalNumber"] >= second - first
