"""A fake result of a call, which remembers its parts."""

import pytest
import torch

from openhpu_predict.serving.results import Result, plain


@pytest.fixture
def made():
    """A result, and how often a part was made."""
    count = 0

    def make(of):
        nonlocal count
        count += 1
        return of()

    return Result(torch.zeros(2, 3, 4), make), lambda: count


def test_parts_are_made_once_for_each_size(made):
    result, count = made
    for _ in range(3):
        flat = result.view(-1, result.shape[-1])
        assert flat.shape == (6, 4)
        for rows in (2, 5):
            assert flat[torch.zeros(rows, dtype=torch.int64)].shape == (rows, 4)
        assert flat[:3].shape == (3, 4)
    assert count() == 4
    assert result.view(3, 8).shape == (3, 8)
    assert flat[:5].shape == (5, 4)


def test_other_indices_and_functions_see_the_tensor(made):
    result, _ = made
    assert type(result[1]) is torch.Tensor
    assert result[1].shape == (3, 4)
    assert result[torch.ones(2, dtype=torch.bool)].shape == (2, 3, 4)
    assert torch.cat([result, torch.ones(1, 3, 4)]).shape == (3, 3, 4)
    assert (result.numel(), len(result)) == (24, 2)
    assert plain({"states": [result]}) == {"states": [result.tensor]}
