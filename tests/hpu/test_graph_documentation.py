"""Every block of code about HPU Graphs in Gaudi's inference page, changed only where a placeholder had to be filled.

tests/lightning/guide has those of Lightning's chapter "Using HPU Graphs".
"""

import pytest
import torch
from torch import nn

import habana_frameworks.torch as ht
import habana_frameworks.torch as htorch


def test_capture_and_replay_of_the_inference_page():
    device = torch.device("hpu")

    class GraphTest:
        def __init__(self, size: int) -> None:
            self.g = ht.hpu.HPUGraph()
            self.s = ht.hpu.Stream()
            self.size = size

        # The following function shows the steps to implement the capture and replay on HPU Graphs
        def wrap_func(self, first: bool) -> None:
            if first:
                with ht.hpu.stream(self.s):
                    self.g.capture_begin()
                    # the following code snippet is for demonstration
                    a = torch.full((self.size,), 1, device=device)
                    b = a
                    b = b + 1
                    self.g.capture_end()
                self.b = b
            else:
                self.g.replay()

    test = GraphTest(10)
    test.wrap_func(True)
    assert test.b.tolist() == [2] * 10
    test.b.zero_()
    test.wrap_func(False)
    assert test.b.tolist() == [2] * 10


@pytest.mark.parametrize("disable_tensor_cache", [False, True])
def test_wrapping_of_the_inference_page(disable_tensor_cache):
    def GetModel():
        torch.manual_seed(1)
        return nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 4)).to("hpu")

    reference = GetModel()
    model = GetModel()
    if disable_tensor_cache:
        htorch.hpu.wrap_in_hpu_graph(model, disable_tensor_cache=True)
    else:
        model = ht.hpu.wrap_in_hpu_graph(model)
    with torch.no_grad():
        for x in torch.randn(4, 8, 12).to("hpu"):
            torch.testing.assert_close(model(x), reference(x), rtol=0, atol=0)
