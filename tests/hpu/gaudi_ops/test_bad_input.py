"""Wrong shapes and dtypes: each error names operator, argument, what was given and what is expected."""

import pytest
import torch
import torch.ao.quantization.fx._decomposed

ops, affine = torch.ops.hpu, torch.ops.quantized_decomposed
E4, E5, F32, BF16 = torch.float8_e4m3fn, torch.float8_e5m2, torch.float32, torch.bfloat16


def o(*shape, dt=torch.float32):
    return torch.ones(shape, dtype=dt, device="hpu")


def e(*shape):
    return o(*shape, dt=E4)


def i(*shape):
    return torch.zeros(shape, dtype=torch.int64, device="hpu")


def codes(*shape):
    return torch.zeros(shape, dtype=torch.uint8, device="hpu")


def ctc(probabilities, targets, inputs, blank=0):
    ops.ctc_loss_custom(probabilities, targets, inputs, i(2), blank, 1, False)


def gemm(a, b, *more, out_dtype=BF16):
    ops.fp8_gemm_v2(a, False, b, False, None, out_dtype, *more)


def rotary(x, sin, cos, ids=None, offset=0):
    ops.rotary_pos_embedding(x, sin, cos, ids, offset, 0)


def turn(shape, table, ids=None, offset=0, mode=0):
    table = o(*table)
    ops.rotary_pos_embedding(o(*shape), table, table, None if ids is None else i(*ids), offset, mode)


def sdpa(**changes):
    given = {
        "q": o(1, 2, 5, 4),
        "k": o(1, 2, 5, 4),
        "v": o(1, 2, 5, 4),
        "attention_mask": None,
        "p": 0.0,
        "scale": 1.0,
        "is_causal": False,
        "softmax_mode": "None",
        "valid_seq_len": None,
        "seq_padding_type": "left",
    }
    ops.sdpa_fwd(**given | changes)


def per_channel(scales=3, zeros=3, axis=1):
    affine.quantize_per_channel(o(2, 3), o(scales), i(zeros), axis, 0, 9, torch.int8)


def moe(activation="silu", most=0, **changes):
    given = {"x": o(2, 8), "routing": i(2, 2), "weights": o(2, 2), "w1": [o(8, 4)], "w2": [o(8, 4)], "w3": [o(4, 8)]}
    ops.mixture_of_experts(*(given | changes).values(), False, activation, 0, most)


def mxfp4(w12=None, s12=None, permuted=True):
    weights = [codes(64, 32) if w12 is None else w12], [codes(64, 16)]
    scales = [codes(64, 2) if s12 is None else s12], [codes(64, 1)]
    ops.mixture_of_experts.mxfp4_fused_weights(
        o(2, 64), i(2, 2), o(2, 2), *weights, *scales, 32, permuted, "silu", 2, 2
    )


def adamw(weights=1, step=1):
    ops.optimizer_adamw([o(2)], [o(2)] * weights, [o(2)], [o(2)], o(step), 0.9, 0.9, 1e-6, o(1), True)


def of_cast(*modes, x=None, **options):
    """The scale of a cast, of floats if nothing else is given."""
    ops.calculate_scale_for_cast(o(2, 2) if x is None else x, *modes, **options)


# The argument at fault, and the call.
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
    "gemm int": (r"A", lambda: gemm(i(2, 3), e(3, 5))),
    "gemm scale": (r"A_scale_inv", lambda: gemm(e(2, 3), e(3, 5), o(7), None)),
    "gemm scale shape": (r"B_scale_shape", lambda: gemm(e(2, 3), e(3, 5), None, o(5), None, False, [4])),
    "gemm bias": (r"bias", lambda: gemm(e(2, 3), e(3, 5), None, None, o(4))),
    "gemm batch": (r"B", lambda: gemm(e(2, 2, 3), e(3, 3, 5))),
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
    "cast hybrid int": (r"input", lambda: ops.cast_to_fp8_hybrid(i(2, 3))),
    "castfrom dtype": (r"out_dtype", lambda: ops.cast_from_fp8(e(2, 3), None, torch.int32)),
    "cast out": (r"out", lambda: ops.cast_to_fp8(o(2, 3), None, False, e(2, 4), o())),
    "cast out dt": (r"out", lambda: ops.cast_to_fp8(o(2, 3), None, False, o(2, 3), o())),
}


@pytest.mark.parametrize(("argument", "call"), CALLS.values(), ids=CALLS)
def test_the_argument_is_named(argument, call):
    with pytest.raises(RuntimeError, match=rf"^hpu::\w+: {argument} is .*; expected .*\."):
        call()


# What the message says, and the call.
MESSAGES = {
    r"embedding_bag_sum: input is .*; expected .rows, dimension.": lambda: ops.embedding_bag_sum(o(4), *[i(4)] * 3, 0),
    "bounds_check_mode is 0; expected 1": lambda: ops.habana_bounds_check_indices(*[i(4)] * 4, 0, None),
    "input is .*; expected 2 x 2 x 2 numbers": lambda: ops.habana_split_permute_cat(o(4), i(4), 2, 2, 2),
    "beam_idx is .*; expected 2 bytes": lambda: ops.kv_reorder(o(8, 1, 2, 1), o(1).int(), o(1).int(), codes(3)),
    "self is .*; expected a multiple of 4 entries": lambda: ops.in_place_interleave(o(3, 1, 2, 1)),
    "indices is .*; expected integer tensors": lambda: ops.plain_index(o(8, 1, 2, 1), [o(8)]),
    "activation is 'tanh'; expected one of silu, gelu, relu": lambda: moe(activation="tanh"),
    "experts_max is 7; expected 0: weights of 1 experts": lambda: moe(most=7),
    "expert_routing_table is a float32 tensor": lambda: moe(routing=o(2, 2)),
    "router_weights is .*; expected a tensor of shape .2, 2.": lambda: moe(weights=o(2, 1)),
    "measure_per_token is True; expected False": lambda: ops.mixture_of_experts.measurement_bias_fused_weights(
        o(2, 8), i(2, 2), o(2, 2), [o(8, 2)], [o(1, 8)], [o(2)], [o(8)], False, 2, 2, True
    ),
    "w12 is a float32 tensor.*; expected a uint8 tensor": lambda: mxfp4(o(64, 32)),
    "d_scale_w12 is .*; expected a uint8 tensor of shape .64, 2.": lambda: mxfp4(s12=codes(64, 1)),
    "permuted_weights is False; expected True": lambda: mxfp4(permuted=False),
    "sinks is .*shape .3.*; expected one score for each of the 4 heads": lambda: ops.fp8_sdpa_recomp_fwd(
        *[e(2, 4, 5, 8)] * 3,
        None,
        0.0,
        0.3,
        True,
        False,
        "None",
        *[1.0] * 6,
        False,
        False,
        None,
        "right",
        (-1, -1),
        o(3),
    ),
    "rms_norm: gamma is .*; expected a tensor of shape .4.": lambda: ops.rms_norm(o(2, 4), o(3), 1e-5),
    "rms_norm: data_in is a int64 tensor": lambda: ops.rms_norm(i(2, 4), o(4), 1e-5),
    "fused_clip_norm: grad is .*; expected at least one tensor": lambda: ops.fused_clip_norm([], o(1), 2.0),
    "weight_vec is .*; expected 1 tensors, as many as gradient_vec": lambda: adamw(weights=0),
    "neg_step_t is .*; expected one number": lambda: adamw(step=2),
    "params_momentum_buf_list is .*; expected 2 tensors": lambda: ops.optimizer_resource_apply_momentum(
        [o(2)], [o(2)], 0.9
    ),
    "convert_from_int4: input is a float32 tensor": lambda: ops.convert_from_int4(o(2, 2), o(2, 2), None, F32),
    "scale is .*; expected a number of rows that divides 5": lambda: ops.convert_from_uint4(
        o(5, 2).int(), o(2, 2), None, F32
    ),
    "nf4: input is .*; expected 2 bytes": lambda: ops.dequantize_nf4(codes(3), o(1), 4, (4,), F32),
    "dtype is 'fp3'; expected mxfp4 or nvfp4": lambda: ops.fake_quant_fp4(o(2, 2), False, 0, "fp3"),
    "reduceAxis is None; expected a dimension": lambda: of_cast(2, 0),
    "reduceAxis is 2; expected a dimension": lambda: of_cast(2, 0, reduceAxis=2),
    "scale_mode is 3; expected 0, 1 or 2": lambda: of_cast(3, 0),
    "scale_type is 2; expected 0 or 1": lambda: of_cast(1, 2),
    "backoff is 0.0; expected a number above 0": lambda: of_cast(1, 0, backoff=0.0),
    "calculate_scale_for_cast: input is a int64 tensor .* floating-point": lambda: of_cast(1, 0, x=i(2, 2)),
    "high is 3; expected more than low, 3": lambda: ops.habana_randint(i(1).int(), 3, 3, [2]),
    "num_samples is 3; expected at most 2": lambda: ops.habana_multinomial(i(1).int(), o(2), 3),
    "p is 2.0; expected a probability": lambda: ops.habana_native_dropout(i(1).int(), o(2), 2.0, True),
    "start_end is .*; expected 4 / grouped_batch_size pairs": lambda: ops.scaled_masked_triangular_softmax(
        o(4, 2, 5, 5), o(3, 2), 1.0, 2, True, 0
    ),
    "block_sums is .*; expected shape": lambda: ops.block_softmax_adjustment(o(4, 2, 5, 5), o(1, 2, 5, 5), o(4), 1),
    "CastToFp8V2 must have no amax for float8.": lambda: ops.cast_to_fp8_v2(e(3, 4), None, False, True),
    r"must have the same dtype for float8, but are Float8_e4m3fn and Float8_e5m2\.": lambda: ops.cast_to_fp8_v2(
        e(3, 4), None, dtype=E5
    ),
    "dtype is torch.int8; expected torch.float8_e5m2": lambda: ops.cast_to_fp8_v2(o(3, 4), None, dtype=torch.int8),
    "input is a int64 tensor of shape .3, 4.": lambda: ops.cast_to_fp8_v2(i(3, 4)),
    "scale is a float32 tensor of shape .2. .*broadcasts": lambda: ops.cast_to_fp8_v2(o(3, 4), [1.0, 2.0]),
    "scale_shape is .3.; expected a shape of 2": lambda: ops.cast_to_fp8_v2(o(3, 4), [1.0, 2.0], scale_shape=[3]),
    "cast_from_fp8: input is a float32 tensor": lambda: ops.cast_from_fp8(o(3, 4), None, F32),
    "B is .*; expected 4 rows": lambda: gemm(e(3, 4), e(3, 4)),
    "fp8_gemm_v2: out_dtype is torch.int32": lambda: gemm(e(3, 4), e(4, 3), out_dtype=torch.int32),
    "D is None; expected": lambda: gemm(e(3, 4), e(4, 3), None, None, None, True),
    "A_scale_inv is .*expected 1": lambda: gemm(e(3, 4), e(4, 3), o(3, 4), o(3, 4)),
    "A is .*; expected one dimension": lambda: gemm(e(), e(4, 3)),
    "sum_fp8: dim is .5.; expected": lambda: ops.sum_fp8(o(3, 4), [5]),
    "sum_fp8: dim is .0, 0.; expected": lambda: ops.sum_fp8(o(3, 4), [0, 0]),
    "sum_fp8: self is a int64 tensor": lambda: ops.sum_fp8(i(3, 4)),
    "sum_fp8: out_dtype is torch.int32": lambda: ops.sum_fp8(o(3, 4), [0], False, torch.int32),
    "scale is .*.2. on hpu:0": lambda: ops.cast_to_fp8_hybrid(o(3, 4), o(2)),
    "rotary_pos_embedding: input is .*; expected an even last dimension": lambda: turn((1, 2, 5, 7), (9, 8)),
    "rotary_pos_embedding: cos is .*; expected 5 positions": lambda: turn((1, 2, 5, 8), (4, 8)),
    "rotary_pos_embedding: cos is .*; expected 7 positions": lambda: turn((1, 2, 5, 8), (6, 8), offset=2),
    "rotary_pos_embedding: mode is 2; expected 0": lambda: turn((1, 2, 5, 8), (9, 8), mode=2),
    "rotary_pos_embedding: cos is .*; expected a last dimension of 12": lambda: turn((1, 2, 5, 12), (9, 8)),
    "rotary_pos_embedding: position_ids is .*batch, 5": lambda: turn((1, 2, 5, 8), (9, 8), (5,)),
    r"rotary_pos_embedding: cos is .*\[4, 1, 8\].*expected .*positions": lambda: turn((5, 6, 7, 8), (4, 1, 8)),
    r"rotary_pos_embedding: cos is .*\[9, 3, 8\].*broadcasts to \[2, 3, 5, 8\]": lambda: turn((2, 3, 5, 8), (9, 3, 8)),
    r"rotary_pos_embedding: position_ids is .*\[3, 4\]": lambda: turn((2, 3, 5, 8), (9, 1, 8), (3, 4)),
    "k is .*; expected a last dimension of 4": lambda: sdpa(k=o(1, 2, 5, 3)),
    "v is .*; expected 5 positions": lambda: sdpa(v=o(1, 2, 6, 4)),
    "k is .*divides q's 2": lambda: sdpa(k=o(1, 3, 5, 4), v=o(1, 3, 5, 4)),
    "p is 1.5; expected a probability": lambda: sdpa(p=1.5),
    "softmax_mode is 'slow'; expected one of None, fast, fp32": lambda: sdpa(softmax_mode="slow"),
    "valid_seq_len is .*one length for each of the 1 sequences": lambda: sdpa(valid_seq_len=o(3)),
    "seq_padding_type is 'top'": lambda: sdpa(valid_seq_len=o(1), seq_padding_type="top"),
    "quantized_decomposed::.*input is a int32 tensor": lambda: affine.quantize_per_tensor(
        o(2, 3).int(), 1.0, 0, 0, 9, torch.int8
    ),
    "quantized_decomposed::.*axis is 2; expected a dimension": lambda: per_channel(axis=2),
    r"quantized_decomposed::.*scales is .*expected \[3\]": lambda: per_channel(scales=2),
    r"quantized_decomposed::.*zero_points is .*\[2\]": lambda: per_channel(zeros=2),
    "quantized_decomposed::.*input is a float32 .*torch.int8": lambda: affine.dequantize_per_tensor(
        o(2, 3), 1.0, 0, 0, 9, torch.int8
    ),
    "quantized_decomposed::.*input is a float32 .*float8_e4m3fn": lambda: affine.dequantize_per_channel(
        o(2, 3), o(3), i(3), 1, 0, 9, E4
    ),
}


@pytest.mark.parametrize("message", MESSAGES)
def test_the_message_says_what_was_given_and_expected(message):
    with pytest.raises(RuntimeError, match=message):
        MESSAGES[message]()
