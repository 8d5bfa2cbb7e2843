"""Metadata learned at first sight: all that changes it is part of the key, so that a second sight is never wrong."""

import pytest
import torch
from torch.testing._internal.common_utils import DeterministicGuard, set_default_dtype

from .support import agree

F = torch.nn.functional
INTEGERS = torch.arange(12).view(3, 4)
FLOATS = torch.arange(12.0).view(3, 4)


def alternate(*cases):
    """Runs all cases twice, in turns, so that each one meets what the others have taught."""
    for _ in range(2):
        for function, *operands in cases:
            agree(function, *operands, exact=False)


def with_each(function, operand, *numbers):
    """The cases of a function of an operand and a number."""
    alternate(*[(lambda x, n=n: function(x, n), operand) for n in numbers])


def test_the_type_of_a_number_decides_the_dtype():
    with_each(torch.add, INTEGERS, 1, 1.5, True, 2j)
    with_each(torch.mul, INTEGERS > 3, 1, 1.5, True)
    with_each(lambda x, n: torch.where(x > 2, x, n), INTEGERS, 1, 1.5)
    with_each(lambda x, n: torch.full((2,), n, device=x.device), INTEGERS, 1, 1.5, True, 1j)


def test_the_value_of_a_number_may_decide_the_size():
    with_each(lambda x, n: torch.arange(n, device=x.device), INTEGERS, 3, 5, 7.5, 0)
    with_each(lambda x, n: torch.arange(0, 10, n, device=x.device), INTEGERS, 1, 3, 0.5)
    with_each(lambda x, n: torch.linspace(0, 1, n, device=x.device), INTEGERS, 3, 5)


def test_numbers_that_are_operands_do_their_work():
    with_each(lambda x, n: torch.clamp(x, n, n + 3), FLOATS, 0, 2, 5)
    with_each(lambda x, n: x.add_(x, alpha=n), FLOATS, 1, 2, 0.5)
    with_each(lambda x, n: F.leaky_relu(x - 5, n), FLOATS, 0.1, 0.2)
    with_each(torch.linalg.vector_norm, FLOATS, 1, 2, float("inf"), 0)


def test_strides_of_operands_decide_strides_of_results():
    square, image = torch.arange(16.0).view(4, 4), torch.arange(120.0).view(2, 3, 4, 5)
    layouts = (
        lambda x: x, lambda x: x.t(), lambda x: x[:, :1].expand(4, 4), lambda x: x.as_strided((4, 4), (1, 4)),
        lambda x: x.as_strided((4, 4), (2, 1)),
    )  # fmt: skip
    for _ in range(2):
        for layout in layouts:
            expected, actual = layout(square) * 2, layout(square.to("hpu")) * 2
            assert actual.stride() == expected.stride()
            assert torch.equal(actual.cpu(), expected)
        for x in (image, image.to(memory_format=torch.channels_last)):
            assert (x.to("hpu") + 1).stride() == (x + 1).stride()
            assert F.max_pool2d(x.to("hpu"), 2).stride() == F.max_pool2d(x, 2).stride()


def test_dtypes_of_operands():
    kinds = [torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.bool]
    alternate(*[(torch.add, FLOATS.to(a), FLOATS.to(b)) for a in kinds for b in kinds])


def test_tensors_without_dimensions_promote_differently():
    zero = torch.tensor(2.0, dtype=torch.float64)
    alternate((torch.add, FLOATS, zero), (torch.add, FLOATS, zero[None]), (torch.add, INTEGERS, zero))
    with_each(torch.add, FLOATS, zero, torch.tensor(2))
    with_each(torch.add, INTEGERS, torch.tensor(2.5))


def test_the_default_dtype_is_a_switch():
    for _ in range(2):
        for dtype in (torch.float32, torch.float64):
            with set_default_dtype(dtype):
                agree(lambda x: (x / 2, x + 1.5, x.float().mean(), torch.sin(x)), INTEGERS, exact=False)
                assert torch.ones(2, device="hpu").dtype == dtype


def test_which_operand_of_a_list_is_which():
    a, b = torch.ones(2, 3), torch.zeros(1, 3)
    alternate((lambda a, b: torch.cat([a, b]), a, b), (lambda a, b: torch.cat([b, a]), a, b))


def test_conjugation_is_part_of_the_key():
    x = torch.tensor([1 + 2j, 3 - 1j])
    alternate(
        (lambda x: x * 2, x), (lambda x: x.conj() * 2, x), (lambda x: x.conj().imag + 1, x), (lambda x: x.imag + 1, x)
    )


def test_gradients_do_not_change_a_result():
    x = FLOATS.clone().requires_grad_()
    alternate((lambda x: (x * 2).detach(), x), (lambda x: x * 2, FLOATS))


def test_threads_and_deterministic_mode_are_switches():
    index = torch.tensor([0, 0, 2])
    for _ in range(2):
        for deterministic in (False, True):
            with DeterministicGuard(deterministic):
                agree(lambda x, i: x.index_add(0, i, x), FLOATS, index)
                agree(lambda x, i: x.index_put((i,), x, accumulate=True), FLOATS, index)


def test_a_list_of_floats_counts_by_value(script):
    """The recorded call holds it as a constant; PyTorch's own operators of this kind are not Gaudi's, but for one."""
    script("""
        from openhpu.integration import fallback
        torch.hpu.init()
        _C.set_native_ops([*fallback.native_ops("gaudi2").items(), ("_test_optional_floatlist", "Float")])
        f = torch.ops.aten._test_optional_floatlist
        x = torch.zeros(2, device="hpu")
        for _ in range(2):
            for given in ([1.0, 2.0], [3.0, 4.0], None):
                assert f(x, given).tolist() == (given or [0.0, 0.0]), given
        assert openhpu.counters()["ops_fallback"] == 0
    """)


COMPILED = {"PT_HPU_LAZY_MODE": "1", "OPENHPU_COMPILE": "background", "PT_HPU_RECIPE_CACHE_CONFIG": "", "CXX": "/no"}


@pytest.mark.parametrize("environment", [{}, COMPILED], ids=["own mode", "compiled"])
def test_a_full_cache_keeps_what_is_in_use(script, environment):
    """More sizes than it holds: those that come back keep their entries, and with them the keys of their graphs."""
    code = f"""
        numbers = torch.zeros(20_000, device="hpu")

        def used():
            y = (torch.ones(3, 5, 7, device="hpu") + 1).mul(2)
            torch.hpu.synchronize()
            return y

        for _ in range(3):
            used()
        whole = openhpu.counters()["ops_predicted"]
        for n in range(1, 20_000):
            numbers[:n] + 1
            if n % 500 == 0:
                torch.hpu.synchronize()
                seen = _C.graphs_seen()
                with counted(ops_predicted=0, ops_waited=0, ops_rehearsed=0):
                    used()
                assert _C.graphs_seen() == seen
        assert openhpu.counters()["ops_predicted"] - whole > 16_384  # that many were new
        assert used().sum().item() == 3 * 5 * 7 * 4
        assert (_C.graphs_seen() > 0) == {bool(environment)}
    """
    script(code, warnings="ignore" if environment else "error", **environment)
