"""generate() in its forms, against the CPU's tokens."""

import pytest
import torch

from ecosystem.transformers.models import GENERATIVE
from ecosystem.transformers.support import LABELS, arguments, make

NEW = 6
LENGTH = {"max_new_tokens": NEW, "min_new_tokens": NEW, "pad_token_id": 0}
generative = pytest.mark.parametrize("model", GENERATIVE, ids=[model.key for model in GENERATIVE])


def generate(model, device, seed=0, **options):
    made = make(model).to(device)
    made.config.output_router_logits = False  # for a loss, which is none of generation's
    given = {name: value for name, value in arguments(model, device).items() if name not in LABELS}
    torch.manual_seed(seed)
    tokens = made.generate(**given, **LENGTH, **options)
    assert tokens.device.type == device
    return tokens.cpu()


def equal_to_the_cpus(model, **options):
    expected = generate(model, "cpu", **options)
    assert expected.shape[1] >= NEW
    assert generate(model, "hpu", **options).tolist() == expected.tolist()


@generative
def test_greedy(model):
    equal_to_the_cpus(model, do_sample=False)


@generative
def test_beams(model):
    equal_to_the_cpus(model, do_sample=False, num_beams=3, num_return_sequences=2)


@generative
def test_sampled(model):
    """Random numbers are the device's own: a seed gives the same again, another one others."""
    drawn = [generate(model, "hpu", seed, do_sample=True, top_k=50, temperature=2.0).tolist() for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert generate(model, "hpu", do_sample=True, top_k=1).tolist() == generate(model, "cpu", do_sample=False).tolist()


@generative
def test_static_cache(model):
    if not make(model)._can_compile_fullgraph:
        pytest.skip("a model without static caches")
    equal_to_the_cpus(model, do_sample=False, cache_implementation="static", disable_compile=True)
