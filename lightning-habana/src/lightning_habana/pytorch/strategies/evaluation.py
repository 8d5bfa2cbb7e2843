"""Trainer's steps that only evaluate."""

from __future__ import annotations

from typing import Any

import habana_frameworks.torch.core as htcore
from lightning_habana.pytorch.plugins.precision import HPUPrecisionPlugin


class HPUEvaluation:
    """Ends the recorded graph before each step, so that every step's graph is the same; ends measurements for fp8."""

    def validation_step(self, *args: Any, **kwargs: Any) -> Any:
        """Step of fit and validate."""
        htcore.mark_step()
        return super().validation_step(*args, **kwargs)  # type: ignore[misc]

    def test_step(self, *args: Any, **kwargs: Any) -> Any:
        """Step of test."""
        htcore.mark_step()
        return super().test_step(*args, **kwargs)  # type: ignore[misc]

    def predict_step(self, *args: Any, **kwargs: Any) -> Any:
        """Step of predict."""
        htcore.mark_step()
        return super().predict_step(*args, **kwargs)  # type: ignore[misc]

    def on_test_end(self) -> None:
        """The end of test: statistics for fp8 are written."""
        super().on_test_end()  # type: ignore[misc]
        self._end_measurement()

    def on_predict_end(self) -> None:
        """The end of predict, likewise."""
        super().on_predict_end()  # type: ignore[misc]
        self._end_measurement()

    def _end_measurement(self) -> None:
        plugin: Any = self.precision_plugin  # type: ignore[attr-defined]
        if isinstance(plugin, HPUPrecisionPlugin):
            plugin.end_measurement()
