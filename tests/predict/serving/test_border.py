"""Calls at the border, without vLLM."""

from types import SimpleNamespace

import pytest
import torch

import openhpu_predict
from openhpu_predict.errors import PredictError
from openhpu_predict.serving.border import Border, _Ones
from openhpu_predict.serving.log import Bucket
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


def test_prefill_without_requests_is_no_call(border):
    """As the first one of a hybrid model, whose prefills the plugin does not merge."""
    form = border.form_prefill(lambda runner, contents: None)
    for names, tokens in (([], []), (["a"], [7])):
        form(None, SimpleNamespace(req_ids=names, get_num_tokens=lambda tokens=tokens: tokens))
    assert border._prefills == [(["a"], 7)]


class Reader(torch.nn.Module):
    """As the plugin's adapter of a model that reads images."""

    def forward(self, input_ids, inputs_embeds=None):
        return inputs_embeds + 1

    def embed_input_ids(self, input_ids, multimodal_embeddings=None, is_multimodal=None):
        return input_ids.unsqueeze(-1).expand(-1, 8).contiguous()

    def compute_logits(self, hidden_states):
        return hidden_states


@pytest.fixture
def reader(border, monkeypatch):
    monkeypatch.setattr(border, "adapter", lambda original: Reader)
    return border.wrap(None)()


def test_embeddings_of_a_prompt_belong_to_the_bucket_of_its_call(border, reader):
    tokens = torch.zeros(4)
    embeddings = reader.embed_input_ids(tokens, multimodal_embeddings=[], is_multimodal=torch.zeros(0))
    assert border.log.misses == []
    border._bucket = Bucket("prompt", 1, 4, 0)
    assert reader.forward(input_ids=tokens, inputs_embeds=embeddings).shape == (4, 8)
    assert [(one.what, one.bucket.phase) for one in border.log.misses] == [
        ("embeddings", "prompt"),
        ("forward", "prompt"),
    ]


def test_images_have_no_price(reader):
    with pytest.raises(PredictError, match="image_grid_thw"):
        reader.embed_multimodal(pixel_values=torch.zeros(1))


def test_part_of_a_model_that_is_left_out(border):
    model = torch.nn.Module()
    model.tower = torch.nn.Module()
    model.tower.register_buffer("table", torch.empty(2, device="meta"))
    config = SimpleNamespace(load_config=SimpleNamespace())
    with pytest.raises(PredictError, match=r"Module uses tower\.table, which is on PyTorch's device meta"):
        border.get_model(lambda vllm_config: model)(vllm_config=config)
