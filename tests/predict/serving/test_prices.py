"""Prices of recorded calls."""

import pytest
import torch

import openhpu_predict
from openhpu_predict.cost import Parameters, fuse, schedule
from openhpu_predict.recording import Recorder
from openhpu_predict.serving.prices import EAGER, GRAPHS, REGIONS, Prices


def recording(rows=512, cuts=2):
    """Products with borders of graphs between them."""
    recorder = Recorder(None)
    with openhpu_predict.fake():
        x = torch.empty(rows, 1024, dtype=torch.bfloat16)
        weights = [torch.empty(1024, 1024, dtype=torch.bfloat16) for _ in range(cuts + 1)]
    with openhpu_predict.fake(), recorder.watching() as found:
        for weight in weights:
            x = torch.relu(x @ weight)
            recorder.cut("graph")
        recorder.end_step()
    return found


@pytest.fixture
def device():
    return openhpu_predict.load("gaudi2")


def test_price_is_that_of_the_schedule(device):
    found = recording()
    price = Prices(device, 1, REGIONS).add(("forward",), "forward", found, None)
    kernels = fuse(found.nodes, found.blocks)
    assert price.seconds == schedule(found.nodes, kernels, device, Parameters.fitted()).seconds
    assert sum(price.engines.values()) == pytest.approx(sum(kernel.seconds for kernel in kernels))
    assert sum(price.layers.values()) == pytest.approx(sum(price.engines.values()))


@pytest.mark.parametrize(("how", "launches"), [(GRAPHS, 1), (REGIONS, 3)])
def test_host_launches_regions_one_by_one_and_a_captured_graph_at_once(device, how, launches):
    price = Prices(device, 1, how).add(("forward",), "forward", recording(), None)
    assert price.host == pytest.approx(launches * device.graph_launch)


def test_eager_launches_each_operator_and_compiles_no_graph(device):
    price = Prices(device, 1, EAGER).add(("forward",), "forward", recording(), None)
    assert price.host == pytest.approx(6 * device.eager_launch)
    assert price.graphs == []


@pytest.mark.parametrize("how", [GRAPHS, REGIONS])
def test_equal_graphs_are_compiled_once(device, how):
    prices = Prices(device, 1, how)
    first = prices.add((1,), "forward", recording(), None)
    again = prices.add((2,), "forward", recording(), None)
    larger = prices.add((3,), "forward", recording(rows=1024), None)
    assert prices.compiled(first) == (1, 2)  # its three graphs are alike
    assert prices.compiled(again) == (0, 0)
    assert prices.compiled(larger) == (1, 2)


def test_workspace_grows_with_the_rows(device):
    prices = Prices(device, 1, REGIONS)
    small = prices.add((1,), "forward", recording(rows=512), None)
    large = prices.add((2,), "forward", recording(rows=1024), None)
    assert large.workspace == 2 * small.workspace > 0
