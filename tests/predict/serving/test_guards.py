"""A run with small real weights, without vLLM."""

import sys
from types import SimpleNamespace

import pytest
import torch

import openhpu_predict
from openhpu_predict.errors import PredictError
from openhpu_predict.serving import guards, real
from openhpu_predict.serving.prices import Price
from openhpu_predict.serving.settings import Settings
from openhpu_predict.serving.traffic import Request

LARGE = {
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "num_hidden_layers": 80,
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "vocab_size": 128256,
    "rope_theta": 500000.0,
}


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (LARGE, {"num_attention_heads": 8, "num_key_value_heads": 2, "hidden_size": 512, "num_hidden_layers": 2}),
        (LARGE | {"num_key_value_heads": 64}, {"num_attention_heads": 2, "hidden_size": 128}),
        (LARGE | {"head_dim": 128, "num_experts": 512}, {"head_dim": 64, "num_experts": 8}),
        (LARGE | {"full_attention_interval": 4, "layer_types": list("abcdefgh")}, {"layer_types": list("abcd")}),
    ],
)
def test_small_model_of_the_same_kind(config, expected):
    small = guards.shrunk(config)
    assert {name: small[name] for name in expected} == expected
    assert small["rope_theta"] == 500000.0
    assert small["vocab_size"] == 1024


@pytest.mark.parametrize(("simulated", "expected"), [(10, 10), (100_000, 33), (32, 32)])
def test_cache_has_no_more_blocks_than_buckets_and_requests_need(simulated, expected):
    config = SimpleNamespace(
        cache_config=SimpleNamespace(block_size=128, num_gpu_blocks=simulated),
        model_config=SimpleNamespace(max_model_len=1000),
        scheduler_config=SimpleNamespace(max_num_seqs=4),
    )
    assert guards.blocks(config, [Request(0.0, 100, 28)] * 3) == expected


def test_times_of_calls_fit_a_model_of_another_width():
    def times(width):
        rows = ((4, width), torch.bfloat16)
        keys = [("forward", None, ((4, 1), torch.int32)), ("logits", rows), ("sampler", rows)]
        return real.given({key: Price(key[0], 0.5, 0.25, {}, {}, 0, 0, []) for key in keys})

    assert times(8192) == times(512)
    assert len(times(512)) == 3
    assert times(512) == {key: [0.5, 0.25] for key in times(512)}


def test_real_calls_take_the_time_of_the_simulation():
    x = torch.ones(4, 2)
    keys = [("logits", ((4, 7), torch.float32))]
    border = real.Real(
        openhpu_predict.load("gaudi2"),
        Settings.stated(),
        real.given({key: Price("logits", 0.5, 0.25, {}, {}, 0, 0, []) for key in keys}),
    )
    assert torch.equal(border.call("logits", lambda x: x + 1, {"x": x}), x + 1)
    assert (border.clock.now, border.clock.free, border.ran) == (250_000_000, 500_000_000, 1)


def test_text_names_guard_line_bucket_requests_and_state():
    new = {
        "at": 0.5,
        "line": "model.py:7",
        "guard": "torch.compile: a guard failed: size",
        "bucket": ["decode", 4, 1, 16],
        "requests": ["0", "3"],
    }
    state = {"what": "write", "op": "aten::add_", "line": "cache.py:3", "times": 1200}
    found = {"warm_up_graphs": 12, "warm_up_state": [state], "new": [new], "steps": 9, "calls": 27}
    text = guards.text(found)
    assert "12 graphs in the warm-up, 1 new ones after it" in text
    assert "decode 4 x 1, 16 blocks, requests 0, 3: torch.compile: a guard failed: size" in text
    assert "model.py:7" in text
    assert "warm-up: aten::add_ did not change older memory, 1,200 x: cache.py:3" in text


@pytest.mark.parametrize(
    ("code", "seconds", "words"),
    [("import time; time.sleep(60)", 0.2, "did not end in 0 s"), ("raise SystemExit('no plugin')", 60.0, "no plugin")],
)
def test_process_that_fails(monkeypatch, tmp_path, code, seconds, words):
    job = guards.Job("gaudi2", Settings.stated(), "", [], 1, [], 16, 0, {})
    script = tmp_path / "python"
    script.write_text(f"#!{sys.executable}\n{code}\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    with pytest.raises(PredictError, match=words):
        guards.run(job, LARGE, seconds)


def test_model_that_reads_images_is_not_made_small():
    with pytest.raises(PredictError, match="reads images"):
        guards.shrunk({"num_attention_heads": 4, "vision_config": {}})
