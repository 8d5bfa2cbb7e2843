"""Neural Compressor's fp8 configurations, and the two calls that `HPUPrecisionPlugin.convert_modules` makes of it.

Neural Compressor first measures the largest absolute values of inputs, then computes scales from them and quantizes.
"""

import importlib.util
import json
import os
from pathlib import Path
from typing import Any

import torch

import habana_frameworks.torch.core as htcore
from openhpu import settings

MAXABS_MEASURE: dict[str, Any] = {
    "mode": "MEASURE",
    "observer": "maxabs",
    "allowlist": {"types": [], "names": []},
    "blocklist": {"types": [], "names": []},
    "measure_exclude": "OUTPUT",
}
MAXABS_QUANT: dict[str, Any] = MAXABS_MEASURE | {"mode": "QUANTIZE", "scale_method": "maxabs_hw"}
# Neural Compressor's names of dtypes that a quantized layer returns.
_DTYPES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}


def read(quant: bool | str | Path | dict[str, Any]) -> dict[str, Any]:
    """A configuration: of a bool (True quantizes, False measures), of a JSON file, or a copy of a dictionary.

    Raises TypeError for anything else, FileNotFoundError for a file that is not there, ValueError for one that has no
    JSON object.
    """
    if isinstance(quant, bool):
        return dict(MAXABS_QUANT if quant else MAXABS_MEASURE)
    if isinstance(quant, dict):
        return dict(quant)
    if not isinstance(quant, str | Path):
        raise TypeError(f"`quant` must be either a bool, file path or a dictionary. Got {type(quant)}")
    if not Path(quant).is_file():
        raise FileNotFoundError(f"convert_modules(quant={str(quant)!r}): there is no such file")
    found = json.loads(Path(quant).read_text(encoding="utf-8"))
    if not isinstance(found, dict):
        raise ValueError(f"convert_modules(quant={str(quant)!r}): expected a JSON object, found {type(found).__name__}")
    return found


def convert(
    module: torch.nn.Module, quant: bool | str | Path | dict[str, Any], data_path: str | Path | None
) -> tuple[torch.nn.Module, torch.nn.Module | None]:
    """The module, measured or quantized, and again the module where it is measured. Errors are `convert_modules`'."""
    config = read(quant)
    if importlib.util.find_spec("neural_compressor") is None:
        raise ModuleNotFoundError(
            "convert_modules(inference=True) needs Neural Compressor, which is not installed: "
            "`pip install neural-compressor-pt`"
        )
    from neural_compressor.torch import quantization

    if data_path is not None or "dump_stats_path" not in config:
        folder = Path(data_path or settings.get("HABANA_LOGS") or ".")
        config["dump_stats_path"] = str(folder / "inc_output" / "measure")
    dtype = next((parameter.dtype for parameter in module.parameters()), torch.float32)
    config.setdefault("hp_dtype", _DTYPES.get(dtype, "bf16"))
    statistics = Path(config["dump_stats_path"])
    os.makedirs(statistics.parent, exist_ok=True)
    if config.get("mode") == "QUANTIZE" and not list(statistics.parent.glob(f"{statistics.name}*")):
        raise FileNotFoundError(
            f"convert_modules(quant={quant!r}): no statistics {statistics}*; measure first, with quant=False, and run "
            "Trainer.test or Trainer.predict"
        )
    module = module.eval().to("hpu")
    fp8 = quantization.FP8Config.from_dict(config)
    if fp8.measure:
        module = quantization.prepare(module, fp8)
        return module, module
    module = quantization.convert(module, fp8)
    htcore.hpu_inference_initialize(module, mark_only_scales_as_const=True)
    return module, None


def finalize(module: torch.nn.Module) -> None:
    """Write the measurements."""
    from neural_compressor.torch import quantization

    quantization.finalize_calibration(module)
