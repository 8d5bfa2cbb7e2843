"""Adapted models on hpu against plain transformers on the CPU: the same weights, the same results."""

import pytest
import torch
from torch.testing import assert_close

from ecosystem.optimum_habana.support import KEYS, LAZY, LENGTH, arguments, make
from ecosystem.transformers.support import LABELS
from habana_frameworks.torch.hpu import wrap_in_hpu_graph

every_model = pytest.mark.parametrize("name", KEYS)
generative = pytest.mark.parametrize("name", [name for name, model in KEYS.items() if model.generates])
# Their attention is written otherwise than transformers': float32's rounding over some layers.
CLOSE = {"rtol": 1e-3, "atol": 1e-4}
# Their generation differs from plain transformers', on the CPU as well: there it is compared with itself.
OTHERWISE = {"OPT", "Gemma3", "Whisper", "Llava"}


def ready(name, plain, device="hpu"):
    """What the CPU found, the adapted model on the device with the CPU's weights, and its inputs."""
    found = plain(name)
    made = make(KEYS[name])
    made.load_state_dict(found["weights"])
    return found, made.to(device), arguments(KEYS[name], device)


def generated(made, given, **options):
    prompt = {key: value for key, value in given.items() if key not in LABELS}
    return made.generate(**prompt, **LENGTH, **options)


@every_model
def test_forward(name, plain):
    found, made, given = ready(name, plain)
    with torch.no_grad():
        for _ in range(2):
            loss = made.eval()(**given)["loss"]
    assert loss.device.type == "hpu"
    assert_close(loss.cpu(), found["inference"], **CLOSE)


@every_model
def test_training_step(name, plain):
    found, made, given = ready(name, plain)
    loss = made.train()(**given)["loss"]
    loss.backward()
    assert_close(loss.detach().cpu(), found["loss"], **CLOSE)
    gradients = {name: p.grad.cpu() for name, p in made.named_parameters() if p.grad is not None}
    assert gradients.keys() == found["gradients"].keys()
    assert len(gradients) > 5
    whole = torch.stack([g.norm() for g in found["gradients"].values()]).norm()
    far = {key: float((gradients[key] - g).norm() / whole) for key, g in found["gradients"].items()}
    assert max(far.values()) < 1e-3, sorted(far.items(), key=lambda item: -item[1])[:5]


@generative
def test_generate(name, plain):
    found, made, given = ready(name, plain)
    for _ in range(2):
        tokens = generated(made.eval(), given, lazy_mode=LAZY, hpu_graphs=False)
    assert tokens.device.type == "hpu"
    expected = found["tokens"]
    if name in OTHERWISE:
        _, made, given = ready(name, plain, "cpu")
        expected = generated(made.eval(), given, lazy_mode=False, hpu_graphs=False).tolist()
    assert tokens.tolist() == expected


@pytest.mark.skipif(not LAZY, reason="HPU graphs are of lazy mode")
@pytest.mark.parametrize("name", ["GPT2", "Llama", "Mistral", "Qwen3", "T5"])
def test_generate_in_graphs(name, plain):
    """generate(hpu_graphs=True) after wrap_in_hpu_graph, as optimum-habana's documentation of generation has it."""
    found, made, given = ready(name, plain)
    wrapped = wrap_in_hpu_graph(made.eval())
    for _ in range(3):
        tokens = generated(wrapped, given, lazy_mode=True, hpu_graphs=True)
    assert tokens.tolist() == found["tokens"]
