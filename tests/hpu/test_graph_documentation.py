"""Every block of code about HPU Graphs in Gaudi's inference page, changed only where a placeholder had to be filled.

tests/lightning/guide has those of Lightning's chapter "Using HPU Graphs".
"""

import torch

import habana_frameworks.torch as ht


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
