"""Kernels whose results depend on more than their arguments: what the host told of them holds, or it is an error."""

import pytest
import torch
from torch.utils._pytree import tree_leaves

from .support import in_place_of

SWITCH = {}
# The kernels run on the device's worker, on CPU tensors: a user's own would be CPU fallbacks, torchvision's are native.
LIBRARY = torch.library.Library("torchvision", "FRAGMENT")


def operator(schema):
    """Decorator: an operator with this kernel for the CPU."""
    name = "unforeseen_" + schema.partition("(")[0]

    def register(kernel):
        LIBRARY.define("unforeseen_" + schema)
        LIBRARY.impl(name, kernel, "CPU")
        return getattr(torch.ops.torchvision, name)

    return register


# Copies of a matrix: by columns, within something larger, or as it is.
LAID_OUT = {
    "columns": lambda x: x.t().contiguous().t(),
    "part": lambda x: torch.nn.functional.pad(x, (1, 0, 1, 1), value=-7.0)[1:-1, 1:],
    "offset": lambda x: torch.cat([x.new_zeros(3), x.flatten()])[3:].view(x.shape),
    "more memory": lambda x: torch.cat([x.flatten(), x.new_zeros(3)])[: x.numel()].view(x.shape),
    "negated": lambda x: torch._neg_view(-x),
    "expanded": lambda x: x[:1].clone().expand(x.shape),
    None: torch.clone,
}


@operator("doubled(Tensor x) -> Tensor")
def doubled(x):
    return LAID_OUT[SWITCH.get("way")](x * 2)


@operator("two(Tensor x) -> (Tensor, Tensor)")
def two(x):
    x = x.clone()
    if SWITCH.get("way") == "apart":
        return x[:1].clone(), x[1:].clone()
    return x[:1], x[1:]


@operator("strange(Tensor x) -> Tensor")
def strange(x):
    return SWITCH.get("make", lambda x: x + 1)(x)


@operator("strange_list(Tensor x) -> Tensor[]")
def strange_list(x):
    return SWITCH.get("make", lambda x: [x + 1] * 2)(x)


@operator("strange_(Tensor(a!) x) -> Tensor(a!)")
def strange_(x):
    return SWITCH.get("make", lambda x: x.add_(1))(x)


@pytest.fixture(autouse=True)
def as_at_first():
    SWITCH.clear()
    yield
    torch.hpu.synchronize()
    SWITCH.clear()


WAYS = [*LAID_OUT][:5]


def learned(call, *arguments):
    """What a call returns whose kernel is as it was at first, or as SWITCH says."""
    result = call(*arguments)
    torch.hpu.synchronize()
    return result


@pytest.mark.parametrize("first", [None, *WAYS[:4]])
@pytest.mark.parametrize("later", [None, *WAYS])
def test_strides_are_those_that_the_host_told(first, later, counted):
    rows = 4 + [None, *WAYS].index(first)  # what was learned is kept for each size
    x = torch.arange(rows * 4.0).view(rows, 4)
    on_hpu = x.to("hpu")
    SWITCH["way"] = first
    told = learned(doubled, on_hpu)
    SWITCH["way"] = later
    with counted() as work:
        y = doubled(on_hpu)
        after = y * 1 + y.as_strided(y.shape, y.stride(), y.storage_offset())
        assert (y.shape, y.stride(), y.storage_offset()) == (told.shape, told.stride(), told.storage_offset())
        assert y.untyped_storage().nbytes() == told.untyped_storage().nbytes()
        assert torch.equal(y.cpu(), x * 2)
        assert torch.equal(after.cpu(), x * 4)
    assert work["outputs_copied"] >= (first != later)


def test_an_expanded_result_is_written_out():
    x = torch.ones(3, 4, device="hpu")
    learned(doubled, x)
    SWITCH["way"] = "expanded"
    assert doubled(x).tolist() == [[2.0] * 4] * 3


@pytest.mark.parametrize(("first", "later"), [(None, "apart"), ("apart", None)])
def test_results_that_share_memory_or_not(first, later):
    x = torch.arange(6.0).view(3, 2) if first else torch.arange(8.0).view(4, 2)
    on_hpu = x.to("hpu")
    SWITCH["way"] = first
    learned(two, on_hpu)
    SWITCH["way"] = later
    for _ in range(2):
        one, rest = two(on_hpu)
        rest += 1
        assert torch.equal(one.cpu(), x[:1])
        assert torch.equal(rest.cpu(), x[1:] + 1)


@pytest.mark.parametrize("later", WAYS)
def test_a_call_that_no_template_describes(later, counted):
    """It has an index on the host."""
    x, index = torch.arange(12.0).view(3, 4), torch.tensor([2, 0])
    on_hpu = x.to("hpu")
    aten_index = torch.ops.aten.index.Tensor
    told = learned(aten_index, on_hpu, [index])

    def gather(x, indices):
        return LAID_OUT[later](torch.index_select(x, 0, indices[0]))

    with in_place_of("index.Tensor", gather), counted(ops_submitted=1, outputs_copied=1):
        y = aten_index(on_hpu, [index])
        assert y.stride() == told.stride()
        assert torch.equal(y.cpu(), x[[2, 0]])


# A kernel, what it makes later, and what the error says.
CHANGED = {
    "more": (strange, lambda x: torch.cat([x, x]), r"Float \[6, 4\] where Float \[3, 4\] was expected"),
    "less": (strange, lambda x: x[:2] + 1, r"Float \[2, 4\] where Float \[3, 4\] was expected"),
    "as large": (strange, lambda x: x.view(4, 3) + 1, r"Float \[4, 3\] where Float \[3, 4\] was expected"),
    "another dtype": (strange, lambda x: x.int(), r"Int \[3, 4\] where Float \[3, 4\] was expected"),
    "one dimension": (strange, lambda x: x.flatten() + 1, r"Float \[12\] where Float \[3, 4\] was expected"),
    "sparse": (strange, lambda x: x.to_sparse(), r"where Float \[3, 4\] was expected"),
    "one of two": (strange_list, lambda x: [x + 1], "_list returned 1 tensors where 2 were expected"),
    "three for two": (strange_list, lambda x: [x + 1] * 3, "_list returned 3 tensors where 2 were expected"),
    "a copy of the argument": (strange_, lambda x: x + 1, "_ returned .* where operand 0 itself"),
}


@pytest.mark.parametrize("kind", CHANGED)
def test_what_is_not_as_expected_is_an_error_that_names_the_operator(kind):
    call, make, message = CHANGED[kind]
    x = torch.zeros(3, 4, device="hpu")
    assert (learned(call, x) is x) == (call is strange_)
    SWITCH["make"] = make
    with pytest.raises(RuntimeError, match=f"torchvision::unforeseen_strange.*{message}") as error:
        learned(call, x)
    assert "torch.Tag.dynamic_output_shape" in str(error.value)
    SWITCH.clear()
    expected = (x + 1).tolist()
    assert all(result.tolist() == expected for result in tree_leaves(call(x)))


def test_an_argument_in_the_place_of_a_new_tensor_is_copied():
    x = torch.arange(3.0, device="hpu")
    learned(strange, x)
    SWITCH["make"] = lambda x: x
    y = strange(x)
    z = strange(x) * 2  # in lazy mode y is needed afterwards, this one not
    y += 1
    torch.hpu.synchronize()
    assert x.tolist() == [0, 1, 2]
    assert y.tolist() == [1, 2, 3]
    assert z.tolist() == [0, 2, 4]
