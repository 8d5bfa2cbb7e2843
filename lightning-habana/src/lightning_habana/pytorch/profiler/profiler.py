"""Trainer's profiler "hpu"."""

import re
import weakref
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity

from lightning_habana import roots
from lightning_habana.accelerators import HPUDevices
from openhpu import settings

_Base: Any = roots.pytorch("profilers").PyTorchProfiler
# Gaudi's profiler would take the device for itself; this value of its variable leaves it to torch.profiler.
_PROFILE_VARIABLE = "HABANA_PROFILE"
_PROFILE_LEFT_TO_TORCH = "profile_api_light"

# Profilers that have begun; a run that raised leaves its own recording.
_recording: "weakref.WeakSet[HPUProfiler]" = weakref.WeakSet()


class HPUProfiler(_Base):  # type: ignore[misc]
    """Lightning's PyTorchProfiler on hpu: traces for TensorBoard, Perfetto and Chrome, and a table of numbers.

    Arguments are PyTorchProfiler's. `sort_by_key` also takes its keys of CUDA with hpu in them, such as
    "hpu_time_total". The device's events are recorded where the trainer's accelerator is hpu, or `activities` asks for
    them. Traces lie in `dirpath`, else in the logger's folder, else in the trainer's `default_root_dir`, and are
    those of each process where there are several. Raises MisconfigurationException for an unknown key, where
    HABANA_PROFILE is set, and at the start of a run that another profiler of PyTorch records.
    """

    AVAILABLE_SORT_KEYS = _Base.AVAILABLE_SORT_KEYS | {
        key.replace("cuda", device) for key in _Base.AVAILABLE_SORT_KEYS for device in ("hpu", "device")
    }

    def __init__(
        self,
        dirpath: str | Path | None = None,
        filename: str | None = None,
        group_by_input_shapes: bool = False,
        export_to_chrome: bool = True,
        row_limit: int = 20,
        sort_by_key: str | None = None,
        record_module_names: bool = False,
        **profiler_kwargs: Any,
    ) -> None:
        self._trainer: Any = None
        self._device_wanted = bool(profiler_kwargs.pop("use_hpu", False))
        self._activities_given = profiler_kwargs.get("activities") is not None
        if sort_by_key is None and self._device_wanted:
            sort_by_key = "hpu_time_total"
        super().__init__(
            dirpath=dirpath,
            filename=filename,
            group_by_input_shapes=group_by_input_shapes,
            export_to_chrome=export_to_chrome,
            row_limit=row_limit,
            sort_by_key=sort_by_key.replace("hpu", "device") if sort_by_key else None,
            record_module_names=record_module_names,
            **profiler_kwargs,
        )
        if (profiled := settings.get(_PROFILE_VARIABLE)) not in ("", "0", _PROFILE_LEFT_TO_TORCH):
            raise roots.MisconfigurationException(
                f"HPUProfiler and Gaudi's own profiler can't be used together: {_PROFILE_VARIABLE}={profiled!r}, "
                f"expected it unset or {_PROFILE_LEFT_TO_TORCH!r}"
            )

    def attach(self, trainer: Any) -> None:
        """Called by `trainer` when it is made: before it has a model, and before the first recording."""
        self._trainer = weakref.proxy(trainer)

    def setup(self, stage: str, local_rank: int | None = None, log_dir: str | None = None) -> None:
        """What a run begins with. A trainer without a logger still has a folder for the traces."""
        super().setup(stage, local_rank, log_dir or getattr(self._trainer, "default_root_dir", None))

    def start(self, action_name: str) -> None:
        """The start of an action. Lightning would end another profiler's recording here."""
        left_by_a_run = any(profiler.profiler is not None for profiler in _recording)
        if self.profiler is None and torch.autograd._profiler_enabled() and not left_by_a_run:
            raise roots.MisconfigurationException(
                "HPUProfiler cannot record while another profiler of PyTorch records in this thread. End the other one "
                "before the Trainer's run, or pass Trainer(profiler=None)."
            )
        super().start(action_name)

    def _create_profilers(self) -> None:
        _recording.add(self)
        if not self._activities_given:
            without_trainer = self._trainer is None
            on_device = self._device_wanted or without_trainer or isinstance(self._trainer.accelerator, HPUDevices)
            self._profiler_kwargs["activities"] = [ProfilerActivity.CPU, *([ProfilerActivity.HPU] if on_device else [])]
        super()._create_profilers()

    def _cache_functions_events(self) -> None:
        # Where the schedule never came to a recording, torch.profiler has no events and asserts that it has.
        if getattr(self.profiler, "profiler", None) is not None:
            super()._cache_functions_events()

    def _prepare_filename(self, action_name: str | None = None, *args: Any, **kwargs: Any) -> str:
        # Names of actions have brackets, which some file systems and TensorBoard's loader refuse.
        if action_name is not None:
            action_name = re.sub(r"\W", "_", action_name, flags=re.ASCII)
        return super()._prepare_filename(action_name, *args, **kwargs)  # type: ignore[no-any-return]
