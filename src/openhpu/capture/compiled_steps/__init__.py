"""`openhpu.compile_step`: a whole training step as one recipe."""

from openhpu.capture.compiled_steps.step import CompiledStep, StepError, compile_step

__all__ = ["CompiledStep", "StepError", "compile_step"]
