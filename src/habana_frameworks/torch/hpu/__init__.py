"""The module object of `torch.hpu` under Gaudi's name: this module replaces itself by it."""

import sys

from openhpu import hpu

sys.modules[__name__] = hpu
