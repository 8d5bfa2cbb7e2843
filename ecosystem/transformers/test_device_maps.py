"""Models that are loaded onto the device by accelerate's device maps."""

import pytest
import torch
import transformers
from torch.testing import assert_close

from ecosystem.transformers.models import MODELS
from ecosystem.transformers.support import CLOSE, arguments, make

ROW = next(model for model in MODELS if model.name == "LlamaForCausalLM")


@pytest.mark.parametrize("where", ["auto", "balanced", "sequential", "hpu", "hpu:0", {"": 0}, {"": "hpu"}], ids=str)
def test_device_map(tmp_path, where):
    """In a process that sees several devices, too."""
    model = make(ROW)
    expected = model(**arguments(ROW, "cpu")).logits
    model.to("hpu").save_pretrained(tmp_path)
    loaded = transformers.LlamaForCausalLM.from_pretrained(tmp_path, device_map=where)
    assert {p.device.type for p in loaded.parameters()} == {"hpu"}
    with torch.no_grad():
        assert_close(loaded(**arguments(ROW, "hpu")).logits.cpu(), expected, **CLOSE)
        ids = arguments(ROW, "hpu")["input_ids"]
        assert loaded.generate(ids, max_new_tokens=3, do_sample=False).shape[1] == ids.shape[1] + 3


def test_offloaded_to_the_host(tmp_path):
    model = make(ROW)
    expected = model(**arguments(ROW, "cpu")).logits
    model.save_pretrained(tmp_path / "model")
    places = {
        "model.embed_tokens": "hpu",
        "model.layers.0": "hpu",
        "model.layers.1": "cpu",
        "model.norm": "hpu",
        "model.rotary_emb": "hpu",
        "lm_head": "disk",
    }
    loaded = transformers.LlamaForCausalLM.from_pretrained(
        tmp_path / "model", device_map=places, offload_folder=tmp_path / "offloaded"
    )
    with torch.no_grad():
        assert_close(loaded(**arguments(ROW, "hpu")).logits.cpu(), expected, **CLOSE)
