"""Calls at the border, without vLLM."""

import pytest
import torch

import openhpu_predict
from openhpu_predict.serving.border import Border, _Ones
from openhpu_predict.serving.prices import REGIONS, Prices
from openhpu_predict.serving.settings import Settings


@pytest.fixture
def border():
    return Border(Prices(openhpu_predict.load("gaudi2"), 1, REGIONS), Settings.stated())


def call(border, rows, blocks):
    given = {
        "input_ids": torch.zeros(rows, 1),
        "positions": torch.zeros(rows, 1),
        "slots": torch.zeros(rows, 1),
        "block_list": torch.zeros(blocks),
    }
    return border.call("forward", lambda input_ids, positions, slots, block_list: input_ids * block_list[0], given)


def test_new_call_names_each_size_that_differs_once(border):
    call(border, 2, 16)
    call(border, 4, 32)
    first, second = border.log.misses
    assert first.differs == "the first of its kind"
    assert second.differs == "input_ids, positions, ...: 4 x 1, not 2 x 1; block_list: 32, not 16"
    call(border, 4, 32)
    assert len(border.log.misses) == 2


def test_known_call_takes_its_price(border):
    border.all_warm = True
    assert call(border, 2, 16).shape == (2, 1)
    (price,) = border.prices.known.values()
    before = border.clock.busy
    call(border, 2, 16)
    assert border.clock.busy == 2 * before == 2 * round(price.seconds * 1e9)
    assert border.log.misses == []


def test_numbers_that_loading_reads_are_equal():
    with openhpu_predict.fake(), _Ones():
        scales = torch.full((3,), 0.5)
        assert scales[1].item() == 1.0
        assert torch.allclose(scales[0], scales[1])
