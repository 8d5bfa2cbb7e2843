"""A seeded training gives the same bits whenever its recipes are there: 200 steps, with late and with early ones."""

import json

import pytest

from commands import ROOT
from tests.processes import clean_environment, run_code

STEPS = 200
OPTIMIZERS = {
    "AdamW": "torch.optim.AdamW(parameters, lr=1e-3, weight_decay=0.1)",
    "SGD": "torch.optim.SGD(parameters, lr=1e-2, momentum=0.9, weight_decay=0.1)",
    "Adam": "torch.optim.Adam(parameters, lr=1e-3)",
}
TRAINING = """
    import hashlib, json, time, torch, openhpu
    from benchmarks import models
    from openhpu.compiler.client import client
    torch.use_deterministic_algorithms({deterministic})
    model = getattr(models, "{model}")
    training = model.training("hpu")
    parameters = list(training.model.parameters())
    training.optimizer = {optimizer}
    recipes = []
    for _ in range({steps}):
        before = openhpu.counters()["recipe_hits"]
        training.step().item()
        recipes.append(openhpu.counters()["recipe_hits"] - before)
        while {early} and client.unanswered():
            time.sleep(0.001)
    state = training.model.state_dict().items()
    bits = dict((name, hashlib.sha256(t.cpu().numpy().tobytes()).hexdigest()) for name, t in state)
    print(json.dumps([bits, recipes]))
"""


def train(folder, early, deterministic, model, optimizer):
    """The hash of each parameter and buffer after 200 steps, and the number of recipes that ran in each step."""
    variables = {
        "PT_HPU_LAZY_MODE": "1", "OPENHPU_COMPILE": "background", "PT_HPU_RECIPE_CACHE_CONFIG": str(folder / "recipes")
    }  # fmt: skip
    environment = clean_environment(folder, **variables)
    environment["PYTHONPATH"] += f":{ROOT}"
    code = TRAINING.format(
        early=early, deterministic=deterministic, model=model, optimizer=OPTIMIZERS[optimizer], steps=STEPS
    )
    return json.loads(run_code(code, folder, environment, "ignore", False, 600).out)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("model", ["MLP", "GPT_SMALL", "CONVNET"])
def test_training(tmp_path, model, optimizer):
    late, taken = train(tmp_path, False, True, model, optimizer)
    early, other = train(tmp_path, True, True, model, optimizer)
    assert taken == other
    assert taken[0] == 0 < taken[-1]
    assert [name for name in late if late[name] != early[name]] == []
