"""Complex tensors without dimensions have no lists of sizes."""

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from openhpu.compiler.errors import CannotCompile
from openhpu.compiler.passes.empty_lists import empty_lists

aten = torch.ops.aten
NUMBER = torch.tensor(1.0 + 2.0j)


def targets(function, *inputs):
    """The operators of the graph after the pass; the results are compared."""
    graph = make_fx(function, tracing_mode="fake")(*inputs)
    empty_lists(graph)
    graph.graph.lint()
    graph.recompile()
    torch.testing.assert_close(graph(*inputs), function(*inputs))
    return [node.target for node in graph.graph.nodes if node.op == "call_function"]


@pytest.mark.parametrize(
    "view", [lambda x: aten.view(x, []), lambda x: aten.expand(x, []), lambda x: aten.permute(x, [])]
)
def test_a_view_of_a_number_is_a_squeeze(view):
    assert targets(lambda x: view(x) * 2, NUMBER) == [aten.squeeze.default, aten.mul.Tensor]


def test_a_copy_of_a_number_is_a_conversion():
    found = targets(lambda x, y: aten.copy(x, y), NUMBER, torch.tensor(3.0))
    assert found == [torch.ops.prims.convert_element_type.default]


def test_real_numbers_and_tensors_with_dimensions_stay():
    assert targets(lambda x: aten.view(x, []) * 2, torch.tensor(3.0)) == [aten.view.default, aten.mul.Tensor]
    assert targets(lambda x: aten.view(x, [1]), NUMBER) == [aten.view.default]


def test_a_call_that_has_no_other_form_is_refused():
    graph = make_fx(lambda x: aten.sum.dim_IntList(x, []), tracing_mode="fake")(NUMBER)
    with pytest.raises(CannotCompile, match=r"aten::sum.*: complex numbers without dimensions"):
        empty_lists(graph)
