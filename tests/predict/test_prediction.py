import contextlib
import os
import re

import pytest
import torch
from torch import nn

from commands import ROOT
from openhpu_predict import PredictError, fake, predict, record
from openhpu_predict.devices import DATA
from openhpu_predict.memory import memory
from openhpu_predict.published import Row
from tests.hpu import custom_ops
from tests.predict.test_memory import step_of
from tests.predict.training_script import training_script
from tests.processes import run_python


class Mlp(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


def training(width=64, rows=32, real=False):
    """A step of training, and its input."""
    with contextlib.nullcontext() if real else fake(), torch.device("hpu"):
        return step_of(nn.Sequential(Mlp(width), Mlp(width))), torch.ones(rows, width)


def faked(*size):
    with fake():
        return torch.empty(size, device="hpu")


def test_the_peak_of_memory_is_the_allocators():
    step, x = training()
    found = memory(record(step, x, steps=2), 1e12)
    torch.hpu.synchronize()
    torch.hpu.reset_peak_memory_stats()
    before = torch.hpu.memory_allocated()
    real, x = training(real=True)
    for _ in range(2):
        real(x)
    torch.hpu.synchronize()
    assert found.peak == torch.hpu.max_memory_allocated() - before
    weights = sum(-(-4 * size // 128) * 128 for size in (64 * 256, 256, 256 * 64, 64) * 2)
    assert found.parts["weights"] == found.parts["gradients"] == weights
    assert found.parts["optimizer"] == 2 * weights
    assert not found.short


def test_what_does_not_fit_is_named_with_its_line(tmp_path):
    small = tmp_path / "small.toml"
    text = (DATA / "gaudi2.toml").read_text()
    small.write_text(re.sub(r"hbm_bytes = \{ value = \d+", "hbm_bytes = { value = 5242880", text))
    x = faked(1024, 512)

    def step():
        y = x + 1  # both fit
        return y @ x.t()  # the first line that does not

    found = predict(step, device=small)
    line = step.__code__.co_firstlineno + 2
    assert found.memory.over_site == (__file__, line)
    assert found.memory.short == (2 * 1024 * 512 + 1024 * 1024) * 4 - 5242880
    assert f"does not fit: first at {__file__}:{line}, short by" in str(found)


def test_a_report_has_lines_layers_and_the_models_error():
    step, x = training(width=1024, rows=512)
    found = predict(step, x, device="gaudi2", batch=512, tokens=1024)
    text = str(found)
    assert "the error of this model on published rows" in text
    assert "Sequential.0.up" in {one.name for one in found.layers}
    assert sum(one.part for one in found.lines) == pytest.approx(1)
    assert f"{512 / found.seconds:,.0f} samples/s" in text
    assert f"{1024 / found.seconds:,.0f} tokens/s" in text
    assert re.search(r"batch 512 -> 2048: MME utilisation \d+% -> \d+%, [\d,]+ -> [\d,]+ samples/s, fits", text)


def test_backward_operators_have_the_line_and_layer_of_their_forward_one():
    step, x = training()
    nodes = [node for node in record(step, x, steps=1).nodes if node.op == "mm" and node.backward]
    assert {node.layer for node in nodes} == {f"Sequential.{k}.{name}" for k in (0, 1) for name in ("up", "down")}
    assert {node.site for node in nodes} == {(__file__, Mlp.forward.__code__.co_firstlineno + 1)}


def test_an_unknown_operator_is_named_and_counted():
    x = faked(64, 64)
    found = predict(lambda: torch.linalg.qr(x))
    assert found.unknown["linalg_qr"] == pytest.approx(1)
    assert "no cost is known for linalg_qr: counted as bound by memory, 100.0% of the time could change" in str(found)


@pytest.mark.parametrize("real", [False, True])
def test_a_users_operator_is_named_as_one_without_a_cost(real):
    custom_ops.loaded()
    x = torch.ones(64, 64, device="hpu") if real else faked(64, 64)
    found = predict(lambda: torch.ops.openhpu_test.scale(x, 2.0) @ x)
    assert 0 < found.unknown["openhpu_test::scale"] < 1
    assert "no cost is known for openhpu_test::scale: counted as bound by memory" in str(found)


def test_a_gaudi_3_is_faster_and_cards_exchange_gradients():
    step, x = training(width=1024, rows=64)
    two, three = (predict(step, x, device=name).seconds for name in ("gaudi2", "gaudi3"))
    assert three < two < predict(step, x, device="gaudi2", cards=8).seconds


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"mode": "fast"}, 'mode is \'fast\'; expected "graph" or "eager"'),
        ({"cards": 12}, "cards is 12; expected 1 to 8, or whole nodes of 8"),
        ({"cards": 0}, "cards is 0"),
        ({"device": "gaudi9"}, "there is no device 'gaudi9'"),
    ],
)
def test_bad_requests(arguments, message):
    x = faked(8)
    with pytest.raises(PredictError, match=re.escape(message)):
        predict(lambda: x + 1, **arguments)


def test_a_read_of_a_fake_model_needs_values():
    x = faked(8)
    line = test_a_read_of_a_fake_model_needs_values.__code__.co_firstlineno + 4
    with pytest.raises(PredictError, match=f"_local_scalar_dense.*{re.escape(__file__)}:{line} needs the values"):
        predict(lambda: x.sum().item())


@pytest.mark.parametrize("read", [lambda x: x.sum().item(), lambda x: x[x > 0].sum(), lambda x: x.cpu().tolist()])
def test_a_read_of_a_real_model_is_one_real_call(read):
    model = nn.Linear(16, 16, device="hpu")
    optimizer = torch.optim.AdamW(model.parameters())
    calls = []

    def step(x):
        calls.append(x)
        model(x).sum().backward()
        optimizer.step()
        read(model.weight.detach())
        optimizer.zero_grad()

    with fake():
        x = torch.empty(8, 16)
    found = predict(step, x, batch=8)
    assert [type(one) for one in calls] == [type(x), torch.Tensor]
    assert found.samples == 8
    assert "one real call was recorded, with zeros in the place of 1 fake arguments" in str(found)
    assert str(found).count("needs the values") == 1
    assert "batch 8 ->" not in str(found)
    assert all(type(one) is torch.Tensor for state in optimizer.state.values() for one in state.values())


def test_real_tensors_are_as_before():
    step, x = training(real=True)
    model = step.__closure__[0].cell_contents
    before = [one.detach().cpu() for one in model.parameters()]
    predict(step, x)
    assert all(one.grad is None for one in model.parameters())
    torch.testing.assert_close([one.detach().cpu() for one in model.parameters()], before, rtol=0, atol=0)
    step(x)  # with an optimizer whose state is real


def test_nothing_to_predict():
    with pytest.raises(PredictError, match="nothing ran on the device"):
        predict(lambda: None)


@pytest.mark.parametrize(
    "cards, tensor, pipeline, message",
    [
        (6, 4, 1, "6 cards cannot be divided by tensor parallel 4"),
        (6, 3, 1, "32 heads cannot be divided by tensor parallel 3"),
        (6, 1, 3, "32 layers cannot be divided by pipeline 3"),
        (12, 2, 4, "6 cards of 12 with tensor parallel 2 cannot be divided by pipeline 4"),
    ],
)
def test_cards_that_the_parallelism_does_not_divide(cards, tensor, pipeline, message):
    with pytest.raises(PredictError, match=message):
        Row(
            model="llama2-7b",
            device="gaudi2",
            kind="train",
            batch=1,
            input=128,
            published=1.0,
            unit="tokens/s",
            fitted=False,
            source="",
            cards=cards,
            tensor=tensor,
            pipeline=pipeline,
        )


SCRIPT = training_script(100)


def command(tmp_path, script, *options, lazy="1"):
    path = tmp_path / "script.py"
    path.write_text(script)
    code = "import sys; from openhpu_predict.command import main; sys.exit(main(sys.argv[1:]))"
    sources = f"{ROOT / 'openhpu-predict' / 'src'}:{ROOT / 'src'}"
    environment = {**os.environ, "PT_HPU_LAZY_MODE": lazy, "PYTHONPATH": sources, "OPENHPU_COMPILE": "off"}
    return run_python(["-c", code, *options, str(path)], tmp_path, environment, fails=None), path


@pytest.mark.parametrize("lazy, mode", [("1", "graph"), ("0", "eager")])
def test_a_script_runs_a_few_steps(tmp_path, lazy, mode):
    found, path = command(tmp_path, SCRIPT, "--device", "gaudi2", "--batch", "8", "--steps", "3", lazy=lazy)
    assert found.code == 0, found.err
    assert found.out.count("loss ") == 3
    assert f"gaudi2, predicted, {mode}:" in found.out
    assert "samples/s" in found.out
    assert re.search(rf"reads cut the step 1 times and cost .*\n  1 x {path}:10", found.out)


def test_no_step(tmp_path):
    found, _ = command(tmp_path, "", "--steps", "0")
    assert found.code == 2
    assert "--steps is 0; expected 1 or more" in found.err
