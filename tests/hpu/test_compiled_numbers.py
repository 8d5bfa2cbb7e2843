"""What changes between recurrences: numbers become inputs, other changes are recompilations with their cause."""

import torch

import openhpu

from .support import line, to_cpu

SCHEDULE = """
    def train(device):
        model, optimizer, x, target = make("mlp", torch.optim.SGD, device, momentum=0.9)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.95)
        for step in range(30):
            if step == 5:
                openhpu.wait_for_recipes()
                openhpu.reset_counters()
            train_step(model, optimizer, x, target)
            schedule.step()
            htcore.mark_step()
        return openhpu.counters(), [p.detach().cpu() for p in model.parameters()]
    moved, actual = train("hpu")
    torch.testing.assert_close(actual, train("cpu")[1], rtol=1e-4, atol=1e-6)
    print(len(openhpu.recipes()), openhpu.recompilations())
    print(moved["recipe_hits"], moved["graphs_flushed"], moved["ops_node_by_node"])
"""


def test_a_learning_rate_schedule_is_one_compilation(script):
    out = script(SCHEDULE, OPENHPU_COMPILE="background").out.splitlines()
    assert out == ["1 []", "25 25 0"]


def test_a_number_that_changes_while_the_compiler_holds_it_for_constant(script):
    code = """
        x = torch.arange(8.0).to("hpu")
        def step(number):
            y = x * number + 1
            torch.hpu.synchronize()
            return y.tolist() == [k * number + 1 for k in range(8)]
        print([step(number) for number in (2.0, 2.0, 2.0, 2.0, 3.0)])
        openhpu.wait_for_recipes()
        print([step(4.0), step(5.0)])
        openhpu.wait_for_recipes()
        openhpu.reset_counters()
        print([step(6.0)], openhpu.counters()["ops_in_recipes"])
    """
    assert script(code, OPENHPU_COMPILE="background").out.splitlines() == [
        "[True, True, True, True, True]",
        "[True, True]",
        "[True] 2",
    ]


def test_a_new_size_is_compiled_without_anybody_waiting_for_it(script):
    """The compiler leaves the step that met it alone for a moment, then goes to work by itself."""
    code = """
        def step(size):
            x = torch.arange(float(size)).to("hpu")
            y = (x * 2 + 1).relu()
            htcore.mark_step()
            return y
        for _ in range(3):
            step(6)
        openhpu.wait_for_recipes()
        assert openhpu.counters()["recipes_compiled"] == 1
        step(7)
        last = time.monotonic() + 120
        while openhpu.counters()["recipes_compiled"] < 2 and time.monotonic() < last:
            time.sleep(0.05)
        openhpu.reset_counters()
        assert step(9).tolist() == [2.0 * k + 1 for k in range(9)]
        print([r.cause for r in openhpu.recompilations()], openhpu.counters()["ops_in_recipes"])
    """
    assert script(code, OPENHPU_COMPILE="background", PT_HPU_RECIPE_CACHE_CONFIG="").out.strip() == "['size'] 3"


def test_a_step_of_any_size_is_one_recipe(counted):
    """Products, a sum, a loss and a tensor of twice the size."""
    weight = torch.randn(8, 16)
    on_hpu = weight.to("hpu")

    def step(w, x, labels):
        hidden = (x @ w).relu()
        loss = torch.nn.functional.cross_entropy(hidden, labels)
        return hidden, hidden.sum(0), loss, hidden.t() @ x, hidden.new_zeros(2 * len(x))

    def compilations(rows):
        x = torch.randn(rows, 8)
        labels = torch.arange(rows) % 16
        given = x.to("hpu"), labels.to("hpu")
        torch.hpu.synchronize()
        with counted() as work:
            results = step(on_hpu, *given)
            torch.hpu.synchronize()
        torch.testing.assert_close(to_cpu(results), step(weight, x, labels), rtol=1e-4, atol=1e-5)
        assert rows < 9 or work["ops_in_recipes"] == work["ops_recorded"] > 0
        return work["recipes_compiled"]

    for rows in (4, 5, 6, 7, 8):
        compilations(rows)
    assert [compilations(rows) for rows in (9, 17, 64, 300, 2, 3)] == [0] * 6


def test_recompilations_name_cause_operand_values_and_line(counted):
    def program(x, number):
        y = x * number
        return y + 1, line() - 1

    def made_known(*shape):
        x = torch.arange(float(torch.Size(shape).numel())).view(shape).to("hpu")
        result = program(x, 2.0)  # alive when the graph ends, as in `run`
        torch.hpu.synchronize()
        del result
        return x

    def run(x, number):
        """The recompilations that a run through a recipe needed, compilations, and the line of `mul`."""
        known = len(openhpu.recompilations())
        with counted(ops_in_recipes=2, ops_recorded=2) as work:
            y, where = program(x, number)
            torch.hpu.synchronize()
        assert torch.equal(y.cpu(), x.cpu() * number + 1)
        return openhpu.recompilations()[known:], work["recipes_compiled"], where

    made_known(4, 6)  # the operators: how many are new, the tests before this one say
    x = made_known(4, 6)  # the graph
    assert run(x, 2.0)[:2] == ([], 0)
    (record,), compiled, where = run(x, 3.0)
    assert (record.cause, record.op, record.argument) == ("number", "aten::mul.Tensor", "other")
    assert (float(record.before), float(record.after), record.dimension) == (2.0, 3.0, None)
    assert record.site == (__file__, where)
    assert compiled == 1
    for number in (4.0, -1.5, 0.0):
        assert run(x, number)[:2] == ([], 0)  # an input from now on

    # A second size: recompiled for all sizes, when it is first seen. Symbols are 2 or more.
    known = len(openhpu.recompilations())
    x = made_known(5, 6)
    (record,) = openhpu.recompilations()[known:]
    assert (record.cause, record.op, record.argument, record.dimension) == ("size", "aten::mul.Tensor", "self", 0)
    assert (record.before, record.after, record.site) == ("4", "5", (__file__, where))
    for rows in (5, 7, 2):
        assert run(made_known(rows, 6), 2.0)[:2] == ([], 0)
    assert len(openhpu.recompilations()) == known + 1

    # Other columns are not what the formulas say.
    x = made_known(5, 8)
    assert len(openhpu.recompilations()) == known + 2
    assert run(x, 2.0)[:2] == ([], 0)
