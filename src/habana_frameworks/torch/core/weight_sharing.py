"""Parameters that modules share."""

import torch


class HabanaParameterWrapper(torch.nn.Parameter):
    """A parameter. On a Gaudi the wrapper keeps tied parameters tied when their modules move to the device; here
    `Module.to` does, and nothing wraps."""


def enable_weight_sharing() -> None:
    """Tied parameters stay tied on the device. They always do, so that this changes nothing."""
