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


def ctc(probabilities, targets, inputs, blank=0):
    ops.ctc_loss_custom(probabilities, targets, inputs, i(2), blank, 1, False)


def gemm(a, b, *more):
    ops.fp8_gemm_v2(a, False, b, False, None, BF16, *more)


def rotary(x, sin, cos, ids=None, offset=0):
    ops.rotary_pos_embedding(x, sin, cos, ids, offset, 0)


def moe(**changes):
    given = {"x": o(2, 8), "routing": i(2, 2), "weights": o(2, 2), "w1": [o(8, 4)], "w2": [o(8, 4)], "w3": [o(4, 8)]}
    ops.mixture_of_experts(*(given | changes).values(), False, "silu", 0, 0)


# The argument at fault, and the call. Others are in the tests of each operator, with the whole message.
CALLS = {
    "kv dims": (r"self", lambda: ops.kv_reorder_(o(2, 3), i(2), i(2), i(1))),
    "kv start len": (r"start", lambda: ops.kv_reorder_(o(4, 2, 8, 3), i(3).int(), i(4).int(), codes(1))),
    "kv start float": (r"start", lambda: ops.kv_reorder_(o(4, 2, 8, 3), o(4), o(4), codes(1))),
    "kv beam float": (r"beam_idx", lambda: ops.kv_reorder_(o(4, 2, 8, 3), i(4), i(4), o(1))),
    "ctc dims": (r"log_probs", lambda: ctc(o(5), i(2, 3), i(2))),
    "ctc int probs": (r"log_probs", lambda: ctc(i(5, 2, 4), i(2, 3), i(2))),
    "ctc lengths": (r"input_lengths", lambda: ctc(o(5, 2, 4), i(2, 3), i(3))),
    "ctc blank": (r"blank", lambda: ctc(o(5, 2, 4), i(2, 3), i(2), 9)),
    "ctc targets float": (r"targets", lambda: ctc(o(5, 2, 4), o(2, 3), i(2))),
    "gemm int": (r"A", lambda: gemm(i(2, 3), o(3, 5).to(E4))),
    "gemm 0d": (r"A", lambda: gemm(o().to(E4), o(3, 5).to(E4))),
    "gemm scale": (r"A_scale_inv", lambda: gemm(o(2, 3).to(E4), o(3, 5).to(E4), o(7), None)),
    "gemm scale shape": (
        r"B_scale_shape", lambda: gemm(o(2, 3).to(E4), o(3, 5).to(E4), None, o(5), None, False, [4])
    ),
    "gemm bias": (r"bias", lambda: gemm(o(2, 3).to(E4), o(3, 5).to(E4), None, None, o(4))),
    "gemm batch": (r"B", lambda: gemm(o(2, 2, 3).to(E4), o(3, 3, 5).to(E4))),
    "rot int": (r"input", lambda: rotary(i(2, 3, 4, 8), o(4, 8), o(4, 8))),
    "rot sin shape": (r"cos", lambda: rotary(o(2, 3, 4, 8), o(3, 8), o(4, 8))),
    "rot ids float": (r"position_ids", lambda: rotary(o(2, 3, 4, 8), o(4, 8), o(4, 8), o(2, 4))),
    "rot off neg": (r"cos", lambda: rotary(o(2, 3, 4, 8), o(4, 8), o(4, 8), None, -1)),
    "rot int table": (r"cos", lambda: rotary(o(2, 3, 4, 8), i(4, 8), i(4, 8))),
    "moe dims": (r"hidden_states", lambda: moe(x=o(8))),
    "moe weights": (r"w1\[0\]", lambda: moe(w1=[o(7, 4)])),
    "moe w2": (r"w2\[0\]", lambda: moe(w2=[o(8, 5)])),
    "moe w3": (r"w3\[0\]", lambda: moe(w3=[o(8, 4)])),
    "moe w3 dtype": (r"w1\[0\]", lambda: moe(w1=[o(8, 4, dt=BF16)])),
    "moe fused odd": (
        r"w12\[0\]",
        lambda: ops.mixture_of_experts(o(2, 8), i(2, 2), o(2, 2), [o(8, 9)], [o(4, 8)], False, "silu", 0, 0),
    ),
    "moe list": (r"w2", lambda: moe(w2=[o(8, 4)] * 2)),
    "moe int hidden": (r"hidden_states", lambda: moe(x=i(2, 8))),
    "tri dims": (r"start_end", lambda: ops.scaled_masked_triangular_softmax(o(4), i(2, 2), 1.0, 1, False, 0)),
    "tri startend": (r"start_end", lambda: ops.scaled_masked_triangular_softmax(o(2, 4, 4), i(2, 3), 1.0, 1, False, 0)),
    "tri int": (r"self", lambda: ops.scaled_masked_triangular_softmax(i(2, 4, 4), i(2, 2), 1.0, 1, False, 0)),
    "sum int": (r"self", lambda: ops.sum_fp8(i(2, 3))),
    "cast hybrid int": (r"input", lambda: ops.cast_to_fp8_hybrid(i(2, 3))),
    "castfrom dtype": (r"out_dtype", lambda: ops.cast_from_fp8(o(2, 3).to(E4), None, torch.int32)),
    "cast scale int list": (r"scale", lambda: ops.cast_to_fp8_v2(o(2, 3), [1.0] * 4)),
    "cast out": (r"out", lambda: ops.cast_to_fp8(o(2, 3), None, False, o(2, 4).to(E4), o())),
    "cast out dt": (r"out", lambda: ops.cast_to_fp8(o(2, 3), None, False, o(2, 3), o())),
}  # fmt: skip


@pytest.mark.parametrize(("argument", "call"), CALLS.values(), ids=CALLS)
def test_the_argument_is_named(argument, call):
    with pytest.raises(RuntimeError, match=rf"^hpu::\w+: {argument} is .*; expected .*\."):
        call()
