"""A divided graph computes what the whole one does, whatever differs between its repetitions."""

import pytest
import torch

from openhpu.compiler.program import description as graph
from openhpu.compiler.program.description import with_constants
from openhpu.compiler.program.program import Program
from openhpu.compiler.program.regions import LEAST_OPERATORS, LEAST_REPETITIONS, NODES, _Graph, divide
from tests.python.openhpu.compiler.recorder import Recorder

LAYERS = 12
SIZE = 4


def layer(x, weight, scale=1.5):
    """More operators than the least of a region, of which none repeats within it."""
    for number in range(LEAST_OPERATORS // 3 + 1):
        x = torch.tanh(torch.mm(x, weight)) * (scale + number / 64)
    return x


def weights(count=LAYERS):
    return [torch.randn(SIZE, SIZE) / SIZE for _ in range(count)]


def plain(x, *given):
    for weight in given:
        x = layer(x, weight)
    return [x]


def one_stride_differs(x, *given):
    for number, weight in enumerate(given):
        x = layer(x, weight.t() if number == 4 else weight)
    return [x]


def one_number_differs(x, *given):
    for number, weight in enumerate(given):
        x = layer(x, weight, 1.25 if number == 2 else 1.5)
    return [x]


def one_alias_differs(x, *given):
    """The fifth layer has its own input as its weight."""
    for number, weight in enumerate(given):
        x = layer(x, x if number == 4 else weight)
    return [x]


def offsets_differ(x, *given):
    """The weights lie in one tensor."""
    for weight in torch.stack(given).unbind(0):
        x = layer(x, weight)
    return [x]


def input_is_written(x, *given):
    for weight in given:
        x.copy_(layer(x, weight))
        weight.mul_(0.5)
        x.t()[1].add_(weight[0])
    return []


def result_of_one_is_kept(x, *given):
    kept = []
    for number, weight in enumerate(given):
        x = layer(x, weight)
        if number == 2:
            kept.append(x.view(-1)[1:3])
    return [*kept, x]


def all_are_read_at_the_end(x, *given):
    """As the backward pass reads what the forward pass made."""
    made = []
    for weight in given:
        x = layer(x, weight)
        made.append(x)
    gradient = torch.ones_like(x)
    for weight, between in zip(reversed(given), reversed(made), strict=True):
        gradient = layer(gradient * between, weight.t())
    return [gradient]


def one_tensor_for_all(x, *given):
    """Each layer adds to the same row of what an earlier part of the graph made."""
    total = torch.zeros(2, SIZE)
    for weight in given:
        x = layer(x, weight)
        total[1] += x.sum(0)
    return [x, total]


def written_where_nothing_was(x, *given):
    """A tensor without contents gets them in parts, in several pieces."""
    joined = torch.empty(2, SIZE)
    joined[0] = x[0]
    for weight in given:
        x = layer(x, weight)
        joined[1] = x[1]
    return [joined]


def overlapping(x, *given):
    """Two programs of layers take turns, with another one behind each second turn."""
    y = x.clone()
    for number, weight in enumerate(given):
        x = layer(x, weight)
        y = layer(y, weight, 0.5)
        if number % 2:
            x = layer(x + y, weight)
    return [x, y]


def swapped(x, *given):
    """The layers change the roles of two tensors."""
    y = x * 0.5
    for weight in given:
        x, y = layer(y, weight), x
        x += y
    return [x, y]


# Each script, and whether it is divided.
CASES = {
    "plain": (plain, True),
    "a stride differs": (one_stride_differs, True),
    "a number differs": (one_number_differs, True),
    "an alias differs": (one_alias_differs, True),
    "offsets differ": (offsets_differ, False),
    "an input is written": (input_is_written, True),
    "a result is kept": (result_of_one_is_kept, True),
    "read at the end": (all_are_read_at_the_end, True),
    "one tensor for all": (one_tensor_for_all, True),
    "written in parts": (written_where_nothing_was, True),
    "overlapping": (overlapping, True),
    "swapped": (swapped, True),
    "too few": (lambda x, *given: plain(x, *given[: LEAST_REPETITIONS - 1]), False),
    "one loop": (lambda x, *given: [sum((torch.tanh(x * w + k) - w for w in given for k in range(5)), x)], False),
    "too small": (lambda x, *given: [sum((torch.mm(x, weight) for weight in given), x)], False),
}


def recorded(script, tensors, variable=lambda value: False):
    """The description of a script, and by slot storages with the contents from before."""
    before = [tensor.clone() for tensor in tensors]
    with Recorder() as recorder:
        results = script(*tensors)
    description = recorder.description(live=results, threads=1, variable=variable)
    for old, tensor in zip(before, tensors, strict=True):
        tensor.copy_(old)
    return description, recorder.storages


def placed(storage, geometry):
    return torch.empty(0, dtype=geometry.dtype).set_(storage, geometry.offset, geometry.sizes, geometry.strides)


def run(program, storages, scalars):
    """Run the program of a graph on its slots' storages, as the core runs a recipe."""
    inputs = [placed(storages[slot.index], slot.base) for slot in program.plan.inputs]
    numbers = [torch.tensor(scalars[index], dtype=program.scalar_dtype(index)) for index in program.plan.scalars]
    results = program.function()(*inputs, *numbers)
    for slot, result in zip(program.plan.outputs, results, strict=True):
        placed(storages[slot.index], slot.base).copy_(result)


def run_divided(description, division, storages, scalars):
    programs = [Program(region) for region in division.regions]
    whole = _Graph(description)
    ends = [*(call.node for call in division.calls[1:]), len(description["nodes"])]
    for call, end in zip(division.calls, ends, strict=True):
        slots, numbers, program = call.slots, call.scalars, None
        if call.region != NODES:
            program = programs[call.region]
        else:
            piece = whole.piece(call.node, end)
            slots, numbers = piece.slots, piece.scalars
            live = list(whole.needed_after(piece, end))
            program = Program(whole.description_of(piece, live))
            lasting = {slots[index] for index, fresh in enumerate(piece.fresh) if not fresh or index in live}
            of_graph = {index for index, slot in enumerate(description["slots"]) if slot["kind"] == "input"}
            assert lasting <= {*call.slots, *of_graph, *description["live"]}
        run(program, [storages[slot] for slot in slots], [scalars[index] for index in numbers])


def check(description, storages, division=None):
    """Divided, the graph leaves the same bits in every slot that counts."""
    division = division or divide(description)
    counting = [
        index
        for index, slot in enumerate(description["slots"])
        if slot["kind"] == "input" or index in description["live"]
    ]
    ours, theirs = ([storage.clone() for storage in storages] for _ in range(2))
    for index, slot in enumerate(description["slots"]):
        if slot["kind"] == "fresh":
            placed_bytes = torch.tensor([], dtype=torch.uint8).set_(ours[index])
            placed_bytes.fill_(0xFF)  # not a number, where nobody writes
    with torch.no_grad():
        run_divided(description, division, ours, description["scalars"])
        run(Program(description), theirs, description["scalars"])
    for index in counting:
        assert bytes(ours[index]) == bytes(theirs[index]), index


def often(division):
    """How often the most frequent region is called."""
    calls = [call.region for call in division.calls if call.region != NODES]
    return max(map(calls.count, calls))


@pytest.mark.parametrize("name", CASES)
def test_a_divided_graph_computes_the_same(name):
    script, divided = CASES[name]
    torch.manual_seed(0)
    description, storages = recorded(script, [torch.randn(SIZE, SIZE), *weights()])
    division = divide(description)
    assert (division is not None) == divided
    if division is not None:
        assert often(division) >= LEAST_REPETITIONS
        check(description, storages, division)


def test_numbers_that_vary_are_arguments_of_a_call():
    """Also those that were equal, or the first ones, when the graph was divided."""

    def script(x, *given):
        for number, weight in enumerate(given):
            x = layer(x * (100.5 + number), weight)
        return [x]

    varies = lambda value: isinstance(value, float) and value > 100  # noqa: E731
    description, storages = recorded(script, [torch.randn(SIZE, SIZE), *weights()], varies)
    division = divide(description)
    assert often(division) == LAYERS
    description["scalars"] = [value + 7 if varies(value) else value for value in description["scalars"]]
    check(description, storages, division)
    constant = with_constants(description, range(len(description["scalars"])))
    assert divide(constant) is None


def test_a_thousand_layers():
    description, storages = recorded(plain, [torch.randn(SIZE, SIZE), *weights(1000)])
    division = divide(description)
    assert often(division) == 1000
    assert len(division.regions) == 1
    check(description, storages, division)


def test_regions_do_not_depend_on_how_often_they_are_called():
    """A model with more of the same layers has the same regions."""
    few, many = (
        divide(recorded(all_are_read_at_the_end, [torch.randn(SIZE, SIZE), *weights(count)])[0]) for count in (5, 9)
    )
    keys = [{graph.key(region) for region in division.regions} for division in (few, many)]
    assert keys[0] == keys[1]


def test_a_border_is_where_no_loop_would_cross_it():
    """In front of a product, not behind the sum whose result generated code reads next."""

    def script(x, *given):
        x = torch.relu(x)
        for weight in given:
            x = torch.relu(layer(x, weight) + x)
        return [x.sum()]

    description, _ = recorded(script, [torch.randn(SIZE, SIZE), *weights()])
    division = divide(description)
    assert often(division) == LAYERS
    assert [call.region for call in division.calls] == [NODES, *[0] * LAYERS, NODES]
    assert [call.node for call in division.calls[:2]] == [0, 1]
    ops = [node["op"] for node in division.regions[0]["nodes"]]
    assert (ops[0], ops[-1]) == ("aten::mm", "aten::relu")


def test_graphs_with_constants_stay_whole():
    description, storages = recorded(plain, [torch.randn(SIZE, SIZE), *weights()])
    assert divide({**description, "constants": {1: bytes(storages[1])}}) is None
