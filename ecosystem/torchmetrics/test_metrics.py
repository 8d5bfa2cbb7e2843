"""Each metric over some batches, on hpu and on the CPU: values of a step and of all, after saving, and reset."""

import copy
import operator
import pickle

import pytest
import torch
import torchmetrics
import torchmetrics.audio
import torchmetrics.clustering
import torchmetrics.detection
import torchmetrics.image
import torchmetrics.nominal
import torchmetrics.retrieval
import torchmetrics.segmentation
import torchmetrics.text
from torch.testing import assert_close

from ecosystem.both import assert_same, moved, tensors
from ecosystem.torchmetrics.metrics import METRICS, binary, multiclass

CLOSE = {"rtol": 1e-4, "atol": 1e-5}
BATCHES = 3


def make(name, device):
    kind, options, _ = METRICS[name]
    return operator.attrgetter(kind)(torchmetrics)(**options).to(device)


def batches(name):
    torch.manual_seed(0)
    return [METRICS[name][2]() for _ in range(BATCHES)]


def filled(name, device):
    metric = make(name, device)
    steps = [metric(*moved(batch, device)) for batch in batches(name)]
    return metric, steps


@pytest.mark.parametrize("name", METRICS)
def test_metric(name):
    metric, steps = filled(name, "hpu")
    cpu_metric, cpu_steps = filled(name, "cpu")
    found, expected = metric.compute(), cpu_metric.compute()
    assert metric.device.type == "hpu"
    assert all(tensor.device.type == "hpu" for tensor in tensors(found))
    assert tensors(expected)
    assert_close(moved(steps, "cpu"), cpu_steps, equal_nan=True, **CLOSE)
    assert_close(moved(found, "cpu"), expected, equal_nan=True, **CLOSE)
    again = pickle.loads(pickle.dumps(copy.deepcopy(metric)))
    assert_close(moved(again.compute(), "cpu"), expected, equal_nan=True, **CLOSE)
    metric.reset()
    for batch in batches(name):
        metric.update(*moved(batch, "hpu"))
    assert_close(moved(metric.compute(), "cpu"), expected, equal_nan=True, **CLOSE)


def collection(device):
    options = {"task": "multiclass", "num_classes": 4}
    made = torchmetrics.MetricCollection(
        [torchmetrics.Accuracy(**options), torchmetrics.Precision(**options), torchmetrics.AUROC(**options)],
        prefix="of_",
    ).to(device)
    torch.manual_seed(0)
    for _ in range(BATCHES):
        made.update(*moved(multiclass(), device))
    return made.compute()


def test_collection():
    assert_same(collection, **CLOSE)


def bootstrap(metric):
    return torchmetrics.BootStrapper(metric, num_bootstraps=4)


@pytest.mark.parametrize(
    "wrap",
    [bootstrap, torchmetrics.MinMaxMetric, torchmetrics.MetricTracker], ids=["bootstrap", "minmax", "tracker"]
)  # fmt: skip
def test_wrapped(wrap):
    def value(device):
        metric = wrap(torchmetrics.MeanSquaredError()).to(device)
        if isinstance(metric, torchmetrics.MetricTracker):
            metric.increment()
        torch.manual_seed(0)
        batch = [torch.randn(16) for _ in range(2)]
        metric.update(*moved(batch, device))
        return metric.compute()

    if wrap is bootstrap:  # which rows are drawn is the device's own
        assert all(tensor.isfinite().all() for tensor in tensors(value("hpu")))
    else:
        assert_same(value, **CLOSE)


def test_states_are_saved_with_a_model(tmp_path):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.metric = torchmetrics.AUROC(task="binary", thresholds=5)
            self.metric.persistent(True)

    model = Model().to("hpu")
    torch.manual_seed(0)
    model.metric.update(*moved(binary(), "hpu"))
    torch.save(model.state_dict(), tmp_path / "state")
    loaded = Model()
    loaded.load_state_dict(torch.load(tmp_path / "state", map_location="cpu"))
    loaded.metric._update_count = 1
    assert_close(loaded.metric.compute(), model.metric.compute().cpu())


def test_arithmetic_of_metrics():
    total = (torchmetrics.MeanMetric() + torchmetrics.SumMetric()).to("hpu")
    total.update(torch.arange(4.0, device="hpu"))
    assert total.compute().item() == 1.5 + 6
