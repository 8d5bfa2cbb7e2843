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

from ecosystem.both import moved, tensors
from ecosystem.torchmetrics.metrics import METRICS

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
    return metric, [metric(*moved(batch, device)) for batch in batches(name)]


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
