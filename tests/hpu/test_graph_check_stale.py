"""OPENHPU_CHECK_GRAPHS finds each stale graph: a difference of what was recorded counts, however small its effect."""

import pytest
import torch

from openhpu.capture.hpu_graphs import compared
from tests.hpu.stale_graphs import STALE, state
from tests.hpu.support import capture, checked_graphs

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


@pytest.fixture
def seen():
    """The outcomes of checks, which are on, and which allow for recipes, also where none is made."""
    with checked_graphs(OPENHPU_COMPILE="sync") as found:
        yield found


def given():
    return torch.arange(4.0, device="hpu")


@pytest.mark.parametrize("transient", [False, True])
@pytest.mark.parametrize("name", STALE)
def test_a_stale_graph_is_found(seen, name, transient):
    function, change = STALE[name]
    s = state()
    f = torch.hpu.wrap_in_hpu_graph_func(lambda x: function(s, x), disable_tensor_cache=transient)
    f(given())
    f(given())
    assert [outcome for outcome, _ in seen] == ["equal", "equal"], seen
    for key, value in change.items():
        setattr(s, key, value() if callable(value) else value)
    f(given())
    (outcome, text) = seen[-1]
    assert outcome == "different", seen
    assert "same operators and inputs" not in text, text


def closeness(a, b, dtype=torch.float32, **options):
    return compared.close(torch.tensor(a), torch.tensor(b), compared.share(dtype), **options)


@pytest.mark.parametrize(
    ("a", "b", "dtype", "alike"),
    [
        ([0.0, 2.0, 4.0, -1e9], [0.0, 300.0, 600.0, -1e9], torch.float32, False),
        ([1.0, 2.0, 3.0], [1.0, 2.0, 3.0000002], torch.float32, True),
        ([1.0, 1e-9, 3.0], [1.0, 2e-9, 3.0000002], torch.float32, True),  # that much 3 lost
        ([1.0, 1e-9, 3.0], [1.0, 2e-9, 3.0], torch.float32, False),
        ([[1e9], [1.0]], [[1e9 + 64], [1.5]], torch.float32, False),  # another row
        ([1.0, float("nan")], [1.0000001, float("nan")], torch.float32, True),
        ([1.0, float("inf")], [1.0, 3e38], torch.float32, False),
        ([100.0, 1.0], [106.0, 1.0], torch.bfloat16, True),
        ([100.0, 1.0], [108.0, 1.0], torch.bfloat16, False),
        ([100.0, 1.0], [112.0, 1.0], torch.float8_e4m3fn, True),
        ([100.0, 1.0, 448.0], [135.0, 1.0, 448.0], torch.float8_e4m3fn, False),
        ([100.0, 1.0, 57344.0], [150.0, 1.0, 57344.0], torch.float8_e5m2, False),
        ([1, 2], [1, 3], torch.bfloat16, False),
    ],
)
def test_what_a_recipe_may_change(a, b, dtype, alike):
    assert closeness(a, b, dtype) == alike


def test_rows_of_a_flat_tensor():
    a, b = torch.tensor([1e9, 0, 1.0, 0]), torch.tensor([1e9 + 64, 0, 1.5, 0])
    assert not compared.close(a, b, 1e-3, row=2)
    assert compared.close(a, b, 1e-3, row=4)
    assert not compared.close(a, b, 1e-3, row=4, step=2)


@pytest.mark.parametrize(
    ("a", "b", "text"),
    [
        ([float("inf"), 1.0], [float("inf"), 3.0], "1 of 2 elements, by up to 2"),
        ([float("inf"), 1.0], [float("-inf"), 1.0], "1 of 2 elements, by up to inf"),
        ([float("nan"), 1.0], [float("nan"), 1.5], "1 of 2 elements, by up to 0.5"),
        ([float("nan"), 1.0], [2.0, 1.0], "1 of 2 elements, of which 1 are NaN in one of the two"),
        ([0.0, 1.0], [-0.0, 1.0], "1 of 2 elements, in the sign of zero"),
        ([1 + 1j], [1 - 1j], "1 of 1 elements, by up to 2"),
    ],
)
def test_how_much_two_results_differ(a, b, text):
    assert compared.amount(torch.tensor(a), torch.tensor(b)) == text


def test_a_graph_by_hand_with_an_outlier_is_named(seen, monkeypatch):
    g, _ = capture(lambda: torch.ones(4, device="hpu") * 2)
    replayed, plain = torch.tensor([2.0, 1.0, 1e9]), torch.tensor([2.0, 1.5, 1e9])
    monkeypatch.setattr(type(g), "unequal", lambda self: [("aten::mul", None, replayed, plain)])
    g.replay()
    assert seen[-1][0] == "different" and "1 of 3 elements, by up to 0.5" in seen[-1][1]
