"""Kernels. `FusedSDPA` is a class here and a submodule of the same name: the submodule is imported first."""

import habana_frameworks.torch.hpex.kernels.Fp8FusedSDPA
import habana_frameworks.torch.hpex.kernels.FusedSDPA  # noqa: F401
from habana_frameworks.torch.hpex.kernels import Fp8Ops as Fp8Ops, Softmax as Softmax, fbgemm as fbgemm
from openhpu.interface.hpex.attention import *  # noqa: F403
from openhpu.interface.hpex.kernels import *  # noqa: F403
from openhpu.interface.hpex.rotary import *  # noqa: F403
