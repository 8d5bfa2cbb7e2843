"""fbgemm's functions on sparse features."""

from openhpu.interface.hpex.sparse_features import *  # noqa: F403
