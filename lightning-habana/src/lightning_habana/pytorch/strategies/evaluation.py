"""Trainer's steps that only evaluate."""

from __future__ import annotations

from typing import Any

import habana_frameworks.torch.core as htcore


class HPUEvaluation:
    """Ends the recorded graph before each step, so that every step's graph is the same."""

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
