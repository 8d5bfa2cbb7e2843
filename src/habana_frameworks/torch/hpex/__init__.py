"""`habana_frameworks.torch.hpex`: Gaudi's extensions."""

from habana_frameworks.torch.hpex import experimental, kernels, movingavrg, normalization, optimizers
from openhpu.interface.gaudi_ops import namespace

namespace.define()  # for what asks the dispatcher for a schema rather than torch.ops.hpu for a name

__all__ = ["experimental", "kernels", "movingavrg", "normalization", "optimizers"]
