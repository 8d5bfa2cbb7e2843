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

from ecosystem.torchmetrics.metrics import METRICS, binary, multiclass

CLOSE = {"rtol": 1e-4, "atol": 1e-5}
BATCHES = 3


def on(value, device):
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, dict):
        return {name: on(each, device) for name, each in value.items()}
    return type(value)(on(each, device) for each in value) if isinstance(value, list | tuple) else value


def tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    values = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else []
    return [tensor for each in values for tensor in tensors(each)]


def make(name, device):
    kind, options, _ = METRICS[name]
    return operator.attrgetter(kind)(torchmetrics)(**options).to(device)


def batches(name):
    torch.manual_seed(0)
    return [METRICS[name][2]() for _ in range(BATCHES)]


def filled(name, device):
    metric = make(name, device)
    steps = [metric(*on(batch, device)) for batch in batches(name)]
    return metric, steps


@pytest.mark.parametrize("name", METRICS)
def test_metric(name):
    metric, steps = filled(name, "hpu")
    cpu_metric, cpu_steps = filled(name, "cpu")
    found, expected = metric.compute(), cpu_metric.compute()
    assert metric.device.type == "hpu"
    assert all(tensor.device.type == "hpu" for tensor in tensors(found))
    assert tensors(expected)
    assert_close(on(steps, "cpu"), cpu_steps, equal_nan=True, **CLOSE)
    assert_close(on(found, "cpu"), expected, equal_nan=True, **CLOSE)
    again = pickle.loads(pickle.dumps(copy.deepcopy(metric)))
    assert_close(on(again.compute(), "cpu"), expected, equal_nan=True, **CLOSE)
    metric.reset()
    for batch in batches(name):
        metric.update(*on(batch, "hpu"))
    assert_close(on(metric.compute(), "cpu"), expected, equal_nan=True, **CLOSE)


def collection(device):
    options = {"task": "multiclass", "num_classes": 4}
    made = torchmetrics.MetricCollection(
        [torchmetrics.Accuracy(**options), torchmetrics.Precision(**options), torchmetrics.AUROC(**options)],
        prefix="of_",
    ).to(device)
    torch.manual_seed(0)
    for _ in range(BATCHES):
        made.update(*on(multiclass(), device))
    return on(made.compute(), "cpu")


def test_collection():
    assert_close(collection("hpu"), collection("cpu"), **CLOSE)


@pytest.mark.parametrize(
    "wrap",
    [lambda m: torchmetrics.BootStrapper(m, num_bootstraps=4), torchmetrics.MinMaxMetric,
     lambda m: torchmetrics.MetricTracker(m)],
    ids=["bootstrap", "minmax", "tracker"],
)  # fmt: skip
def test_wrapped(wrap):
    results = {}
    for device in ("cpu", "hpu"):
        metric = wrap(torchmetrics.MeanSquaredError()).to(device)
        if isinstance(metric, torchmetrics.MetricTracker):
            metric.increment()
        torch.manual_seed(0)
        batch = [torch.randn(16) for _ in range(2)]
        metric.update(*on(batch, device))
        results[device] = on(metric.compute(), "cpu")
    if isinstance(metric, torchmetrics.BootStrapper):  # which rows are drawn is the device's own
        assert all(tensor.isfinite().all() for tensor in tensors(results["hpu"]))
    else:
        assert_close(results["hpu"], results["cpu"], **CLOSE)


def test_states_are_saved_with_a_model(tmp_path):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.metric = torchmetrics.AUROC(task="binary", thresholds=5)
            self.metric.persistent(True)

    model = Model().to("hpu")
    torch.manual_seed(0)
    model.metric.update(*on(binary(), "hpu"))
    torch.save(model.state_dict(), tmp_path / "state")
    loaded = Model()
    loaded.load_state_dict(torch.load(tmp_path / "state", map_location="cpu"))
    loaded.metric._update_count = 1
    assert_close(loaded.metric.compute(), model.metric.compute().cpu())


def test_arithmetic_of_metrics():
    total = (torchmetrics.MeanMetric() + torchmetrics.SumMetric()).to("hpu")
    total.update(torch.arange(4.0, device="hpu"))
    assert total.compute().item() == 1.5 + 6
