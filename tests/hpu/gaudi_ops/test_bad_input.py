"""Wrong shapes and dtypes: each error names operator, argument, what was given and what is expected."""

import pytest
import torch

ops = torch.ops.hpu
E4, BF16 = torch.float8_e4m3fn, torch.bfloat16


def o(*shape, dt=torch.float32):
    return torch.ones(shape, dtype=dt, device="hpu")


def i(*shape):
    return torch.zeros(shape, dtype=torch.int64, device="hpu")


def codes(size):
    return torch.zeros(size, dtype=torch.uint8, device="hpu")


# The argument at fault, and the call.
CALLS = {
    "kv dims": (r"self", lambda: ops.kv_reorder_(o(2, 3), i(2), i(2), i(1))),
    "kv start len": (r"start", lambda: ops.kv_reorder_(o(4, 2, 8, 3), i(3).int(), i(4).int(), codes(1))),
    "kv start float": (r"start", lambda: ops.kv_reorder_(o(4, 2, 8, 3), o(4), o(4), codes(1))),
    "kv beam float": (r"beam_idx", lambda: ops.kv_reorder_(o(4, 2, 8, 3), i(4), i(4), o(1))),
    "ctc dims": (r"log_probs", lambda: ops.ctc_loss_custom(o(5), i(2, 3), i(2), i(2), 0, 1, False)),
    "ctc int probs": (r"log_probs", lambda: ops.ctc_loss_custom(i(5, 2, 4), i(2, 3), i(2), i(2), 0, 1, False)),
    "ctc lengths": (r"input_lengths", lambda: ops.ctc_loss_custom(o(5, 2, 4), i(2, 3), i(3), i(2), 0, 1, False)),
    "ctc blank": (r"blank", lambda: ops.ctc_loss_custom(o(5, 2, 4), i(2, 3), i(2), i(2), 9, 1, False)),
    "ctc targets float": (r"targets", lambda: ops.ctc_loss_custom(o(5, 2, 4), o(2, 3), i(2), i(2), 0, 1, False)),
    "gemm K": (r"B", lambda: ops.fp8_gemm_v2(o(2, 3).to(E4), False, o(4, 5).to(E4), False, None, BF16)),
    "gemm int": (r"A", lambda: ops.fp8_gemm_v2(i(2, 3), False, o(3, 5).to(E4), False, None, BF16)),
    "gemm 0d": (r"A", lambda: ops.fp8_gemm_v2(o().to(E4), False, o(3, 5).to(E4), False, None, BF16)),
    "gemm out int": (
        r"out_dtype",
        lambda: ops.fp8_gemm_v2(o(2, 3).to(E4), False, o(3, 5).to(E4), False, None, torch.int32),
    ),
    "gemm scale": (
        r"A_scale_inv",
        lambda: ops.fp8_gemm_v2(o(2, 3).to(E4), False, o(3, 5).to(E4), False, None, BF16, o(7), None),
    ),
    "gemm scale shape": (
        r"B_scale_shape",
        lambda: ops.fp8_gemm_v2(o(2, 3).to(E4), False, o(3, 5).to(E4), False, None, BF16, None, o(5), None, False, [4]),
    ),
    "gemm bias": (
        r"bias",
        lambda: ops.fp8_gemm_v2(o(2, 3).to(E4), False, o(3, 5).to(E4), False, None, BF16, None, None, o(4)),
    ),
    "gemm D": (
        r"D",
        lambda: ops.fp8_gemm_v2(o(2, 3).to(E4), False, o(3, 5).to(E4), False, None, BF16, None, None, None, True),
    ),
    "gemm batch": (r"B", lambda: ops.fp8_gemm_v2(o(2, 2, 3).to(E4), False, o(3, 3, 5).to(E4), False, None, BF16)),
    "rot int": (r"input", lambda: ops.rotary_pos_embedding(i(2, 3, 4, 8), o(4, 8), o(4, 8), None, 0, 0)),
    "rot mode": (r"mode", lambda: ops.rotary_pos_embedding(o(2, 3, 4, 8), o(4, 8), o(4, 8), None, 0, 2)),
    "rot sin shape": (r"cos", lambda: ops.rotary_pos_embedding(o(2, 3, 4, 8), o(3, 8), o(4, 8), None, 0, 0)),
    "rot ids float": (
        r"position_ids",
        lambda: ops.rotary_pos_embedding(o(2, 3, 4, 8), o(4, 8), o(4, 8), o(2, 4), 0, 0),
    ),
    "rot off neg": (r"cos", lambda: ops.rotary_pos_embedding(o(2, 3, 4, 8), o(4, 8), o(4, 8), None, -1, 0)),
    "rot int table": (r"cos", lambda: ops.rotary_pos_embedding(o(2, 3, 4, 8), i(4, 8), i(4, 8), None, 0, 0)),
    "moe dims": (
        r"hidden_states",
        lambda: ops.mixture_of_experts(o(8), i(2, 2), o(2, 2), [o(8, 4)], [o(8, 4)], [o(4, 8)], False, "silu", 0, 0),
    ),
    "moe weights": (
        r"w1\[0\]",
        lambda: ops.mixture_of_experts(o(2, 8), i(2, 2), o(2, 2), [o(7, 4)], [o(8, 4)], [o(4, 8)], False, "silu", 0, 0),
    ),
    "moe w2": (
        r"w2\[0\]",
        lambda: ops.mixture_of_experts(o(2, 8), i(2, 2), o(2, 2), [o(8, 4)], [o(8, 5)], [o(4, 8)], False, "silu", 0, 0),
    ),
    "moe w3": (
        r"w3\[0\]",
        lambda: ops.mixture_of_experts(o(2, 8), i(2, 2), o(2, 2), [o(8, 4)], [o(8, 4)], [o(8, 4)], False, "silu", 0, 0),
    ),
    "moe w3 dtype": (
        r"w1\[0\]",
        lambda: ops.mixture_of_experts(
            o(2, 8), i(2, 2), o(2, 2), [o(8, 4, dt=BF16)], [o(8, 4)], [o(4, 8)], False, "silu", 0, 0
        ),
    ),
    "moe fused odd": (
        r"w12\[0\]",
        lambda: ops.mixture_of_experts(o(2, 8), i(2, 2), o(2, 2), [o(8, 9)], [o(4, 8)], False, "silu", 0, 0),
    ),
    "moe act": (
        r"activation",
        lambda: ops.mixture_of_experts(o(2, 8), i(2, 2), o(2, 2), [o(8, 4)], [o(8, 4)], [o(4, 8)], False, "tanh", 0, 0),
    ),
    "moe range": (
        r"experts_max",
        lambda: ops.mixture_of_experts(o(2, 8), i(2, 2), o(2, 2), [o(8, 4)], [o(8, 4)], [o(4, 8)], False, "silu", 0, 3),
    ),
    "moe routing float": (
        r"expert_routing_table",
        lambda: ops.mixture_of_experts(o(2, 8), o(2, 2), o(2, 2), [o(8, 4)], [o(8, 4)], [o(4, 8)], False, "silu", 0, 0),
    ),
    "moe list": (
        r"w2",
        lambda: ops.mixture_of_experts(
            o(2, 8), i(2, 2), o(2, 2), [o(8, 4)], [o(8, 4)] * 2, [o(4, 8)], False, "silu", 0, 0
        ),
    ),
    "moe int hidden": (
        r"hidden_states",
        lambda: ops.mixture_of_experts(i(2, 8), i(2, 2), o(2, 2), [o(8, 4)], [o(8, 4)], [o(4, 8)], False, "silu", 0, 0),
    ),
    "tri dims": (r"start_end", lambda: ops.scaled_masked_triangular_softmax(o(4), i(2, 2), 1.0, 1, False, 0)),
    "tri startend": (r"start_end", lambda: ops.scaled_masked_triangular_softmax(o(2, 4, 4), i(2, 3), 1.0, 1, False, 0)),
    "tri int": (r"self", lambda: ops.scaled_masked_triangular_softmax(i(2, 4, 4), i(2, 2), 1.0, 1, False, 0)),
    "sum int": (r"self", lambda: ops.sum_fp8(i(2, 3))),
    "cast int": (r"input", lambda: ops.cast_to_fp8_v2(i(2, 3))),
    "cast dtype": (r"dtype", lambda: ops.cast_to_fp8_v2(o(2, 3), None, False, False, BF16)),
    "cast hybrid int": (r"input", lambda: ops.cast_to_fp8_hybrid(i(2, 3))),
    "castfrom": (r"input", lambda: ops.cast_from_fp8(o(2, 3), None, torch.float32)),
    "castfrom dtype": (r"out_dtype", lambda: ops.cast_from_fp8(o(2, 3).to(E4), None, torch.int32)),
    "cast scale int list": (r"scale", lambda: ops.cast_to_fp8_v2(o(2, 3), [1.0] * 4)),
    "cast out": (r"out", lambda: ops.cast_to_fp8(o(2, 3), None, False, o(2, 4).to(E4), o())),
    "cast out dt": (r"out", lambda: ops.cast_to_fp8(o(2, 3), None, False, o(2, 3), o())),
}


@pytest.mark.parametrize(("argument", "call"), CALLS.values(), ids=CALLS)
def test_the_argument_is_named(argument, call):
    with pytest.raises(RuntimeError, match=rf"^hpu::\w+: {argument} is .*; expected .*\."):
        call()
