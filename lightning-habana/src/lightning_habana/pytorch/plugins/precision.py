"""Trainer's precision on hpu."""

from pathlib import Path
from typing import Any

import torch

from habana_frameworks.torch.hpex.experimental import transformer_engine
from lightning_habana import roots
from lightning_habana.precisions import HPUAutocast
from lightning_habana.pytorch.plugins import quant_config


class HPUPrecisionPlugin(HPUAutocast, roots.pytorch("plugins.precision").MixedPrecision):  # type: ignore[misc]
    """Steps of a mixed precision run under torch.autocast("hpu"), float16 with a gradient scaler; fp8's, fp8_autocast.

    `precision`: "32-true" or "32" (nothing is cast), "bf16-mixed" or "bf16", "16-mixed", "fp8" (see `convert_modules`).
    Raises ValueError for others, NotImplementedError for "fp8" and "16-mixed" on a Gaudi of the first generation.
    """

    allowed: tuple[str, ...] = ("32", "32-true", "bf16", "bf16-mixed", "fp8", "16-mixed")
    measured: torch.nn.Module | None = None  # by Neural Compressor, until its statistics are written

    def convert_modules(
        self,
        module: torch.nn.Module,
        inference: bool = False,
        replace_layers: bool = False,
        recipe: Any = None,
        quant: bool | str | Path | dict[str, Any] = True,
        fp8_data_path: str | Path | None = None,
    ) -> torch.nn.Module:
        """Make the module one that computes in fp8, and return it. It is also changed in place.

        Training: `recipe` (default: transformer_engine's). `replace_layers`: each torch.nn.Linear becomes
        transformer_engine's, with the same parameters; else the module has such layers already.

        `inference`: Neural Compressor prepares the module. `quant=False` measures: the next test or predict writes
        statistics into `fp8_data_path` (default: `$HABANA_LOGS`). `quant=True` quantizes with these statistics. A
        dictionary or a JSON file is a configuration of Neural Compressor and says which of both; see
        `plugins.quant_config`. The module moves to hpu.

        Raises AssertionError for another precision than "fp8", ModuleNotFoundError without Neural Compressor,
        TypeError for a `quant` that is no bool, file or dictionary, FileNotFoundError for a file that is not there
        and for statistics that were not measured. Source: lightning_habana 1.7, HPUPrecisionPlugin.
        """
        if self.precision != "fp8":
            raise AssertionError(f"convert_modules is for precision 'fp8', found {self.precision!r}")
        if inference:
            module, self.measured = quant_config.convert(module, quant, fp8_data_path)
            return module
        self.recipe = recipe
        return _with_fp8_layers(module) if replace_layers else module

    def end_measurement(self) -> None:
        """Write the measurements of `convert_modules`. Strategies call it after test and predict."""
        if self.measured is not None:
            quant_config.finalize(self.measured)
            self.measured = None


def _with_fp8_layers(module: torch.nn.Module) -> torch.nn.Module:
    if type(module) is torch.nn.Linear:
        weight, bias = module._parameters["weight"], module._parameters["bias"]
        assert weight is not None
        layer = transformer_engine.Linear(
            module.in_features, module.out_features, bias is not None, params_dtype=weight.dtype, device=weight.device
        )
        # The same objects: an optimizer may have them already.
        layer.register_parameter("weight", weight)
        layer.register_parameter("bias", bias)
        return layer
    for name, child in module.named_children():
        setattr(module, name, _with_fp8_layers(child))
    return module
