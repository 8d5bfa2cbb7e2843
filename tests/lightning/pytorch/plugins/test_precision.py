"""Precision on one device, by name and by plugin."""

import pytest
import torch

from habana_frameworks.torch.hpex.experimental import transformer_engine
from habana_frameworks.torch.hpex.experimental.transformer_engine.recipe import DelayedScaling
from lightning_habana import HPUPrecisionPlugin, roots
from tests.lightning.support import Classifier, loader, make_trainer, trained_on_cpu

plugins = roots.pytorch("plugins.precision")


def train(**arguments):
    model = Classifier()
    trainer = make_trainer(accelerator="hpu", devices=1, **arguments)
    trainer.fit(model, loader(), loader(2))
    return model, trainer


@pytest.mark.parametrize(
    ("precision", "dtype"),
    [
        (None, torch.float32),
        ("32", torch.float32),
        (32, torch.float32),
        ("32-true", torch.float32),
        ("bf16-mixed", torch.bfloat16),
        ("16-mixed", torch.float16),
        ("bf16-true", torch.bfloat16),
        ("16-true", torch.float16),
        ("64-true", torch.float64),
    ],
)
def test_by_name(precision, dtype):
    model, trainer = train(precision=precision, max_epochs=1)
    assert model.dtypes == {dtype}
    assert model.devices == {"hpu"}
    mixed = "mixed" in str(precision)
    assert isinstance(trainer.precision_plugin, HPUPrecisionPlugin) == (dtype is torch.float32 or mixed)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32 if mixed else dtype}
    assert not torch.hpu.is_autocast_hpu_enabled()


@pytest.mark.filterwarnings("ignore:.*is supported for historical reasons")
def test_old_name():
    assert train(precision="bf16", max_epochs=1)[0].dtypes == {torch.bfloat16}


@pytest.mark.parametrize(
    "plugin",
    [
        lambda: HPUPrecisionPlugin("bf16-mixed"),
        lambda: HPUPrecisionPlugin(precision="bf16", device="hpu"),
        lambda: plugins.MixedPrecision("bf16-mixed", device="hpu"),
    ],
)
def test_by_plugin(plugin):
    assert train(plugins=[plugin()], max_epochs=1)[0].dtypes == {torch.bfloat16}


@pytest.mark.parametrize(("precision", "tolerance"), [("bf16-mixed", 0.05), ("16-mixed", 0.01)])
def test_mixed_trains_nearly_as_float32(precision, tolerance):
    # Without the scheduler's decay two epochs would be chaotic for signs of small gradients.
    difference = (train(precision=precision)[0].weights() - trained_on_cpu()).abs()
    assert difference.mean() < tolerance


def test_float16_has_a_scaler_that_is_saved(tmp_path):
    _, trainer = train(precision="16-mixed")
    trainer.save_checkpoint(tmp_path / "last.ckpt")
    saved = torch.load(tmp_path / "last.ckpt", weights_only=False)
    assert saved["HPUPrecisionPlugin"]["scale"] > 1


@pytest.mark.parametrize("precision", ["transformer-engine", "transformer-engine-float16"])
def test_unknown_names_are_refused(precision):
    with pytest.raises(roots.MisconfigurationException, match=f"precision='{precision}'.*'bf16-mixed', '16-mixed'"):
        make_trainer(accelerator="hpu", devices=1, precision=precision)


def test_a_plugin_of_another_device_is_refused():
    with pytest.raises(roots.MisconfigurationException, match="device='cpu'\\) would autocast nothing on hpu"):
        make_trainer(accelerator="hpu", devices=1, plugins=[plugins.MixedPrecision("bf16-mixed", device="cpu")])


def test_constructor():
    with pytest.raises(ValueError, match=r"precision='8'.*must be one of: \('32', '32-true', 'bf16'"):
        HPUPrecisionPlugin("8")
    with pytest.raises(ValueError, match="device='cuda'"):
        HPUPrecisionPlugin("bf16-mixed", device="cuda")
    with pytest.raises(AssertionError, match="for precision 'fp8', found 'bf16-mixed'"):
        HPUPrecisionPlugin("bf16-mixed").convert_modules(torch.nn.Linear(2, 2))


@pytest.mark.parametrize("recipe", [None, DelayedScaling(margin=1, amax_history_len=4, amax_compute_algo="max")])
def test_fp8_trains_nearly_as_float32(recipe):
    model = Classifier()
    plugin = HPUPrecisionPlugin("fp8")
    parameters = list(model.parameters())
    assert plugin.convert_modules(model, replace_layers=True, recipe=recipe) is model
    layers = [layer for layer in model.modules() if isinstance(layer, transformer_engine.Linear)]
    assert len(layers) == 2
    assert all(a is b for a, b in zip(model.parameters(), parameters, strict=True))
    make_trainer(accelerator="hpu", devices=1, plugins=[plugin]).fit(model, loader(), loader(2))
    difference = (model.weights() - trained_on_cpu()).abs()
    assert 1e-6 < difference.mean() < 0.05  # and something was rounded
    length = (recipe or DelayedScaling()).amax_history_len
    assert {len(scale.history) for layer in layers for scale in layer.fp8_scales.values()} == {length}
