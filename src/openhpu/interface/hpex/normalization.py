"""Normalization of activations, and of gradients by their norm."""

import enum
from collections.abc import Iterable

import torch
from torch import Tensor

from openhpu.interface.gaudi_ops.norms import clip_
from openhpu.interface.gaudi_ops.registry import one_operator


class RmsNormBwdMode(enum.IntEnum):
    """Ways in which Gaudi's kernel computes the gradient of gamma. Here they give the same numbers."""

    DEFAULT = 0
    STATIC_CASE_WIDTH_PARTITIONING = 1


class FusedRMSNorm:
    """Root-mean-square normalization as one operator. Called as `FusedRMSNorm.apply(...)`."""

    @staticmethod
    @one_operator
    def apply(
        data_in: Tensor,
        gamma: Tensor,
        eps: float,
        use_stages: bool = True,
        bwd_mode: RmsNormBwdMode | int = RmsNormBwdMode.DEFAULT,
        fast_math: bool = False,
    ) -> Tensor:
        """data_in / sqrt(mean(data_in^2) + eps) * gamma over the last dimension.

        data_in: [..., D]; gamma: [D]; the result has data_in's shape and dtype. The last three arguments choose between
        ways to the same numbers. Source: torch.nn.functional.rms_norm.
        """
        if gamma.dtype is data_in.dtype and gamma.dim() == 1 and data_in.shape[-1] == gamma.shape[0]:
            return torch.nn.functional.rms_norm(data_in, gamma.shape, gamma, eps)
        return torch.ops.hpu.rms_norm(data_in, gamma, eps)[0]  # type: ignore[no-any-return]


class FusedClipNorm:
    """Clips gradients: `FusedClipNorm(parameters, max_norm).clip_norm(parameters)`."""

    def __init__(self, parameters: Iterable[Tensor] | Tensor, max_norm: float | Tensor) -> None:
        self.max_norm = max_norm
        self.norm_type = 2.0

    @one_operator
    def clip_norm(self, parameters: Iterable[Tensor] | Tensor) -> Tensor:
        """Scale gradients in place, so that their norm together is at most max_norm; returns the norm before.

        0 if no parameter has a gradient. Source: torch.nn.utils.clip_grad_norm_.
        """
        if isinstance(parameters, Tensor):
            parameters = [parameters]
        grads = [parameter.grad for parameter in parameters if parameter.grad is not None]
        if not grads:
            return torch.zeros(())
        with torch.no_grad():
            return clip_(grads, self.max_norm, self.norm_type)
