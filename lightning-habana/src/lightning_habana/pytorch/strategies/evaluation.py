"""Trainer's steps that only evaluate."""

from typing import Any

import habana_frameworks.torch.core as htcore
from lightning_habana import roots
from lightning_habana.pytorch.plugins.precision import HPUPrecisionPlugin


class HPUEvaluation(roots.Mixin):
    """Ends the recorded graph before each step, so that every step's graph is the same; ends measurements for fp8."""

    def validation_step(self, *args: Any, **kwargs: Any) -> Any:
        """Step of fit and validate."""
        htcore.mark_step()
        return super().validation_step(*args, **kwargs)

    def test_step(self, *args: Any, **kwargs: Any) -> Any:
        """Step of test."""
        htcore.mark_step()
        return super().test_step(*args, **kwargs)

    def predict_step(self, *args: Any, **kwargs: Any) -> Any:
        """Step of predict."""
        htcore.mark_step()
        return super().predict_step(*args, **kwargs)

    def on_test_end(self) -> None:
        """The end of test: statistics for fp8 are written."""
        super().on_test_end()
        self._end_measurement()

    def on_predict_end(self) -> None:
        """The end of predict, likewise."""
        super().on_predict_end()
        self._end_measurement()

    def _end_measurement(self) -> None:
        if isinstance(self.precision_plugin, HPUPrecisionPlugin):
            self.precision_plugin.end_measurement()
