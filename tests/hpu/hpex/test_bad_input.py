"""Wrong arguments: each error says what was given and what is expected."""

import pytest
import torch

from openhpu.interface.hpex import optimizers, rotary, transformer_engine as te
from openhpu.interface.hpex.attention import FusedSDPA
from openhpu.interface.hpex.optimizers.distributed import FusedAdamW as Given


def attention(last=8, **options):
    q, k, v = (torch.ones(2, 2, 5, size, device="hpu") for size in (8, last, 8))
    FusedSDPA.apply(q, k, v, **options)


def optimizer(name, **options):
    getattr(optimizers, name)([parameter()], **options)


def parameter():
    made = torch.nn.Parameter(torch.ones(2, device="hpu"))
    made.grad = torch.ones(2, device="hpu")
    return made


# What the message says, the class of the error, and the call.
BAD = {
    "softmax_mode is 'slow'; expected one of None, fast, fp32": (RuntimeError, lambda: attention(softmax_mode="slow")),
    "valid_sequence_lengths is .*; expected None, unless is_causal": (
        RuntimeError,
        lambda: attention(valid_sequence_lengths=torch.tensor([3, 5], device="hpu")),
    ),
    "k is .*; expected a last dimension of 8": (RuntimeError, lambda: attention(4, return_attn_probs=True)),
    "rope_cache is .*; expected .2 or more, batch or 1, n, 2.": (
        RuntimeError,
        lambda: rotary.apply_rotary_pos_emb(*torch.ones(2, 2, 3, 5, 8, device="hpu")),
    ),
    "amax_compute_algo is 'mean'; expected max or most_recent": (
        ValueError,
        lambda: te.DelayedScaling(amax_compute_algo="mean"),
    ),
    "unexpected arguments colour": (TypeError, lambda: te.Linear(2, 2, colour=1)),
    "lr is -1": (ValueError, lambda: optimizer("FusedAdamW", lr=-1)),
    "betas are": (ValueError, lambda: optimizer("FusedAdamW", betas=(0.9, 1.0))),
    "moments_dtype is torch.int8": (ValueError, lambda: optimizer("FusedAdamW", moments_dtype=torch.int8)),
    "FusedSGD: lr is -1; expected": (ValueError, lambda: optimizer("FusedSGD", lr=-1)),
    "nesterov is True": (ValueError, lambda: optimizer("FusedSGD", nesterov=True)),
    "amsgrad is True; expected False": (RuntimeError, lambda: optimizer("FusedLamb", amsgrad=True)),
    "skip_mask has 2 numbers; expected 1": (
        ValueError,
        lambda: optimizers.FusedLars(torch.optim.SGD([parameter()], lr=0.1), [1, 0]),
    ),
    "a gradient is dense; expected sparse ones": (RuntimeError, lambda: optimizers.SparseSGD([parameter()]).step()),
    "1 gradients are given; expected 2": (ValueError, lambda: Given([parameter(), parameter()]).step([None])),
}


@pytest.mark.parametrize("message", BAD)
def test_the_message_says_what_is_wrong(message):
    error, call = BAD[message]
    with pytest.raises(error, match=message):
        call()
