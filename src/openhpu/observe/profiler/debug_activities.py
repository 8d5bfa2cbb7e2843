"""Gaudi's argument `debug_activities` of torch.profiler.profile."""

from collections.abc import Iterable
from enum import Enum, auto


class DebugActivity(Enum):
    """Parts of its own software that Gaudi's profiler records. Here every trace with ProfilerActivity.HPU has both: the
    calls that issue commands, flush, wait and compile."""

    SYNAPSE_FUNCTION_CALLS = auto()
    BRIDGE_FUNCTION_CALLS = auto()


def check(activities: Iterable[object] | None) -> None:
    """Raises TypeError for an object that is not a DebugActivity."""
    for activity in activities or ():
        if not isinstance(activity, DebugActivity):
            raise TypeError(
                f"debug_activities expects members of habana_frameworks.torch.activity_profiler.DebugActivity, but got "
                f"{activity!r}"
            )
