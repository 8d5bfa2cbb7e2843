"""fp8 inference by Neural Compressor: measured, then quantized."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest
import torch

from lightning_habana import HPUPrecisionPlugin
from lightning_habana.pytorch.plugins import quant_config
from tests.lightning.support import Classifier, loader, make_trainer

DOWNLOADED = Path(sys.prefix) / "neural-compressor"  # by `make test`


@pytest.fixture
def compressor(monkeypatch):
    if not DOWNLOADED.exists() and importlib.util.find_spec("neural_compressor") is None:
        pytest.skip("Neural Compressor is not installed; `make test` downloads it")
    monkeypatch.syspath_prepend(DOWNLOADED)


def predicted(precision, model):
    trainer = make_trainer(accelerator="hpu", devices=1, plugins=[precision])
    return torch.cat(trainer.predict(model, loader())).cpu()


def converted(quant, folder, model=None):
    """The plugin and the model, as a script makes them."""
    plugin = HPUPrecisionPlugin("fp8")
    return plugin, plugin.convert_modules(model or Classifier(), inference=True, quant=quant, fp8_data_path=folder)


@pytest.mark.usefixtures("compressor")
@pytest.mark.parametrize("form", ["bool", "dictionary", "file"])
def test_measured_then_quantized(form, tmp_path):
    expected = predicted(HPUPrecisionPlugin("32-true"), Classifier())
    measure, quantize = {
        "bool": (False, True),
        "dictionary": (quant_config.MAXABS_MEASURE, quant_config.MAXABS_QUANT),
        "file": (tmp_path / "measure.json", tmp_path / "quantize.json"),
    }[form]
    if form == "file":
        measure.write_text(json.dumps(quant_config.MAXABS_MEASURE))
        quantize.write_text(json.dumps(quant_config.MAXABS_QUANT))
    plugin, model = converted(measure, tmp_path)
    torch.testing.assert_close(predicted(plugin, model), expected)
    assert list((tmp_path / "inc_output").glob("measure*.npz"))
    assert plugin.measured is None

    plugin, model = converted(quantize, tmp_path)
    assert {layer.weight.dtype for layer in (model.layers[0], model.layers[2])} == {torch.float8_e4m3fn}
    assert (predicted(plugin, model) == expected).float().mean() > 0.9


@pytest.mark.usefixtures("compressor")
def test_what_was_not_measured(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no statistics .*measure\*; measure first, with quant=False"):
        converted(True, tmp_path)


@pytest.mark.parametrize(
    ("quant", "error", "says"),
    [
        (1, TypeError, "`quant` must be either a bool, file path or a dictionary"),
        ("missing.json", FileNotFoundError, r"missing\.json"),
        ("list.json", ValueError, "expected a JSON object, found list"),
    ],
)
def test_a_wrong_configuration(quant, error, says, tmp_path):
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(error, match=says):
        converted(tmp_path / quant if isinstance(quant, str) else quant, tmp_path)


def test_without_neural_compressor(monkeypatch, tmp_path):
    monkeypatch.setattr(quant_config.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match="pip install neural-compressor-pt"):
        converted(False, tmp_path)
