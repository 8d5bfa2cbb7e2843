import torch
from torch.fx.experimental.proxy_tensor import make_fx

from openhpu.compiler.passes.bool_bytes import bool_bytes


def test_bools_and_bytes_are_converted():
    def work(mask, data):
        return mask.view(torch.uint8) + 1, data.view(torch.bool), data.view(torch.int8), mask.view(torch.bool)

    mask, data = torch.tensor([True, False, True]), torch.tensor([0, 1, 1], dtype=torch.uint8)
    graph = make_fx(work)(mask, data)
    bool_bytes(graph)
    graph.recompile()
    conversion = torch.ops.prims.convert_element_type.default
    assert len(graph.graph.find_nodes(op="call_function", target=conversion)) == 2
    assert len(graph.graph.find_nodes(op="call_function", target=torch.ops.aten.view.dtype)) <= 2
    torch.testing.assert_close(graph(mask, data), work(mask, data))
