"""Wrong shapes and dtypes: each error names operator, argument, what was given and what is expected."""

import pytest
import torch
import torch.ao.quantization.fx._decomposed

ops, affine = torch.ops.hpu, torch.ops.quantized_decomposed
E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2


def ones(*shape, dtype=torch.float32):
    return torch.ones(shape, dtype=dtype, device="hpu")


def fp8(*shape):
    return ones(*shape, dtype=E4M3)


def integers(*shape):
    return torch.zeros(shape, dtype=torch.int64, device="hpu")


def codes(*shape):
    return torch.zeros(shape, dtype=torch.uint8, device="hpu")


def ctc(probabilities, targets, inputs, blank=0):
    ops.ctc_loss_custom(probabilities, targets, inputs, integers(2), blank, 1, False)


def gemm(a, b, *more, out_dtype=torch.bfloat16):
    ops.fp8_gemm_v2(a, False, b, False, None, out_dtype, *more)


def rotary(x, sin, cos, ids=None, offset=0):
    ops.rotary_pos_embedding(x, sin, cos, ids, offset, 0)


def turn(shape, table, ids=None, offset=0, mode=0):
    table = ones(*table)
    ops.rotary_pos_embedding(ones(*shape), table, table, None if ids is None else integers(*ids), offset, mode)


def sdpa(**changes):
    given = {
        "q": ones(1, 2, 5, 4),
        "k": ones(1, 2, 5, 4),
        "v": ones(1, 2, 5, 4),
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
    affine.quantize_per_channel(ones(2, 3), ones(scales), integers(zeros), axis, 0, 9, torch.int8)


def moe(activation="silu", most=0, **changes):
    given = {
        "hidden_states": ones(2, 8),
        "expert_routing_table": integers(2, 2),
        "router_weights": ones(2, 2),
        "w1": [ones(8, 4)],
        "w2": [ones(8, 4)],
        "w3": [ones(4, 8)],
        "permuted_weights": False,
        "activation": activation,
        "experts_min": 0,
        "experts_max": most,
    }
    ops.mixture_of_experts(**given | changes)


def mxfp4(w12=None, s12=None, permuted=True):
    ops.mixture_of_experts.mxfp4_fused_weights(
        hidden_states=ones(2, 64),
        expert_routing_table=integers(2, 2),
        router_weights=ones(2, 2),
        w12=[codes(64, 32) if w12 is None else w12],
        w3=[codes(64, 16)],
        d_scale_w12=[codes(64, 2) if s12 is None else s12],
        d_scale_w3=[codes(64, 1)],
        block_size=32,
        permuted_weights=permuted,
        activation="silu",
        experts_min=2,
        experts_max=2,
    )


def measured_with_biases():
    ops.mixture_of_experts.measurement_bias_fused_weights(
        hidden_states=ones(2, 8),
        expert_routing_table=integers(2, 2),
        router_weights=ones(2, 2),
        w12=[ones(8, 2)],
        w3=[ones(1, 8)],
        w12_bias=[ones(2)],
        w3_bias=[ones(8)],
        permuted_weights=False,
        experts_min=2,
        experts_max=2,
        measure_per_token=True,
    )


def fp8_sdpa(sinks):
    scales = ("d_scale_q", "d_scale_k", "d_scale_v", "q_scale_s", "q_scale_o", "d_scale_s")
    ops.fp8_sdpa_recomp_fwd(
        q=fp8(2, 4, 5, 8),
        k=fp8(2, 4, 5, 8),
        v=fp8(2, 4, 5, 8),
        attention_mask=None,
        p=0.0,
        scale=0.3,
        is_causal=True,
        requires_backward=False,
        softmax_mode="None",
        **dict.fromkeys(scales, 1.0),
        is_amax_s=False,
        is_amax_0=False,
        valid_seq_len=None,
        seq_padding_type="right",
        window_size=(-1, -1),
        sinks=sinks,
    )


def adamw(weights=1, step=1):
    ops.optimizer_adamw(
        gradient_vec=[ones(2)],
        weight_vec=[ones(2)] * weights,
        exp_avg_vec=[ones(2)],
        exp_avg_sq_vec=[ones(2)],
        neg_step_t=ones(step),
        beta1=0.9,
        beta2=0.9,
        epsilon=1e-6,
        weight_decay=ones(1),
        has_weight_decay=True,
    )


def of_cast(*modes, x=None, **options):
    """The scale of a cast, of floats if nothing else is given."""
    ops.calculate_scale_for_cast(ones(2, 2) if x is None else x, *modes, **options)


# The argument at fault, and the call.
CALLS = {
    "kv dims": (r"self", lambda: ops.kv_reorder_(ones(2, 3), integers(2), integers(2), integers(1))),
    "kv start len": (
        r"start",
        lambda: ops.kv_reorder_(ones(4, 2, 8, 3), integers(3).int(), integers(4).int(), codes(1)),
    ),
    "kv start float": (r"start", lambda: ops.kv_reorder_(ones(4, 2, 8, 3), ones(4), ones(4), codes(1))),
    "kv beam float": (r"beam_idx", lambda: ops.kv_reorder_(ones(4, 2, 8, 3), integers(4), integers(4), ones(1))),
    "ctc dims": (r"log_probs", lambda: ctc(ones(5), integers(2, 3), integers(2))),
    "ctc int probs": (r"log_probs", lambda: ctc(integers(5, 2, 4), integers(2, 3), integers(2))),
    "ctc lengths": (r"input_lengths", lambda: ctc(ones(5, 2, 4), integers(2, 3), integers(3))),
    "ctc blank": (r"blank", lambda: ctc(ones(5, 2, 4), integers(2, 3), integers(2), 9)),
    "ctc targets float": (r"targets", lambda: ctc(ones(5, 2, 4), ones(2, 3), integers(2))),
    "gemm int": (r"A", lambda: gemm(integers(2, 3), fp8(3, 5))),
    "gemm scale": (r"A_scale_inv", lambda: gemm(fp8(2, 3), fp8(3, 5), ones(7), None)),
    "gemm scale shape": (r"B_scale_shape", lambda: gemm(fp8(2, 3), fp8(3, 5), None, ones(5), None, False, [4])),
    "gemm bias": (r"bias", lambda: gemm(fp8(2, 3), fp8(3, 5), None, None, ones(4))),
    "gemm batch": (r"B", lambda: gemm(fp8(2, 2, 3), fp8(3, 3, 5))),
    "rot int": (r"input", lambda: rotary(integers(2, 3, 4, 8), ones(4, 8), ones(4, 8))),
    "rot sin shape": (r"cos", lambda: rotary(ones(2, 3, 4, 8), ones(3, 8), ones(4, 8))),
    "rot ids float": (r"position_ids", lambda: rotary(ones(2, 3, 4, 8), ones(4, 8), ones(4, 8), ones(2, 4))),
    "rot off neg": (r"cos", lambda: rotary(ones(2, 3, 4, 8), ones(4, 8), ones(4, 8), None, -1)),
    "rot int table": (r"cos", lambda: rotary(ones(2, 3, 4, 8), integers(4, 8), integers(4, 8))),
    "moe dims": (r"hidden_states", lambda: moe(hidden_states=ones(8))),
    "moe weights": (r"w1\[0\]", lambda: moe(w1=[ones(7, 4)])),
    "moe w2": (r"w2\[0\]", lambda: moe(w2=[ones(8, 5)])),
    "moe w3": (r"w3\[0\]", lambda: moe(w3=[ones(8, 4)])),
    "moe w3 dtype": (r"w1\[0\]", lambda: moe(w1=[ones(8, 4, dtype=torch.bfloat16)])),
    "moe fused odd": (
        r"w12\[0\]",
        lambda: ops.mixture_of_experts(
            ones(2, 8), integers(2, 2), ones(2, 2), [ones(8, 9)], [ones(4, 8)], False, "silu", 0, 0
        ),
    ),
    "moe list": (r"w2", lambda: moe(w2=[ones(8, 4)] * 2)),
    "moe int hidden": (r"hidden_states", lambda: moe(hidden_states=integers(2, 8))),
    "tri dims": (r"start_end", lambda: ops.scaled_masked_triangular_softmax(ones(4), integers(2, 2), 1.0, 1, False, 0)),
    "tri startend": (
        r"start_end",
        lambda: ops.scaled_masked_triangular_softmax(ones(2, 4, 4), integers(2, 3), 1.0, 1, False, 0),
    ),
    "tri int": (
        r"self",
        lambda: ops.scaled_masked_triangular_softmax(integers(2, 4, 4), integers(2, 2), 1.0, 1, False, 0),
    ),
    "cast hybrid int": (r"input", lambda: ops.cast_to_fp8_hybrid(integers(2, 3))),
    "castfrom dtype": (r"out_dtype", lambda: ops.cast_from_fp8(fp8(2, 3), None, torch.int32)),
    "cast out": (r"out", lambda: ops.cast_to_fp8(ones(2, 3), None, False, fp8(2, 4), ones())),
    "cast out dt": (r"out", lambda: ops.cast_to_fp8(ones(2, 3), None, False, ones(2, 3), ones())),
}


@pytest.mark.parametrize(("argument", "call"), CALLS.values(), ids=CALLS)
def test_the_argument_is_named(argument, call):
    with pytest.raises(RuntimeError, match=rf"^hpu::\w+: {argument} is .*; expected .*\."):
        call()


# What the message says, and the call.
MESSAGES = {
    r"embedding_bag_sum: input is .*; expected .rows, dimension.": lambda: ops.embedding_bag_sum(
        ones(4), *[integers(4)] * 3, 0
    ),
    "bounds_check_mode is 0; expected 1": lambda: ops.habana_bounds_check_indices(*[integers(4)] * 4, 0, None),
    "input is .*; expected 2 x 2 x 2 numbers": lambda: ops.habana_split_permute_cat(ones(4), integers(4), 2, 2, 2),
    "beam_idx is .*; expected 2 bytes": lambda: ops.kv_reorder(
        ones(8, 1, 2, 1), ones(1).int(), ones(1).int(), codes(3)
    ),
    "self is .*; expected a multiple of 4 entries": lambda: ops.in_place_interleave(ones(3, 1, 2, 1)),
    "indices is .*; expected integer tensors": lambda: ops.plain_index(ones(8, 1, 2, 1), [ones(8)]),
    "activation is 'tanh'; expected one of silu, gelu, relu": lambda: moe(activation="tanh"),
    "experts_max is 7; expected 0: weights of 1 experts": lambda: moe(most=7),
    "expert_routing_table is a float32 tensor": lambda: moe(expert_routing_table=ones(2, 2)),
    "router_weights is .*; expected a tensor of shape .2, 2.": lambda: moe(router_weights=ones(2, 1)),
    "measure_per_token is True; expected False": measured_with_biases,
    "w12 is a float32 tensor.*; expected a uint8 tensor": lambda: mxfp4(ones(64, 32)),
    "d_scale_w12 is .*; expected a uint8 tensor of shape .64, 2.": lambda: mxfp4(s12=codes(64, 1)),
    "permuted_weights is False; expected True": lambda: mxfp4(permuted=False),
    "sinks is .*shape .3.*; expected one score for each of the 4 heads": lambda: fp8_sdpa(ones(3)),
    "rms_norm: gamma is .*; expected a tensor of shape .4.": lambda: ops.rms_norm(ones(2, 4), ones(3), 1e-5),
    "rms_norm: data_in is a int64 tensor": lambda: ops.rms_norm(integers(2, 4), ones(4), 1e-5),
    "fused_clip_norm: grad is .*; expected at least one tensor": lambda: ops.fused_clip_norm([], ones(1), 2.0),
    "weight_vec is .*; expected 1 tensors, as many as gradient_vec": lambda: adamw(weights=0),
    "neg_step_t is .*; expected one number": lambda: adamw(step=2),
    "params_momentum_buf_list is .*; expected 2 tensors": lambda: ops.optimizer_resource_apply_momentum(
        [ones(2)], [ones(2)], 0.9
    ),
    "convert_from_int4: input is a float32 tensor": lambda: ops.convert_from_int4(
        ones(2, 2), ones(2, 2), None, torch.float32
    ),
    "scale is .*; expected a number of rows that divides 5": lambda: ops.convert_from_uint4(
        ones(5, 2).int(), ones(2, 2), None, torch.float32
    ),
    "nf4: input is .*; expected 2 bytes": lambda: ops.dequantize_nf4(codes(3), ones(1), 4, (4,), torch.float32),
    "dtype is 'fp3'; expected mxfp4 or nvfp4": lambda: ops.fake_quant_fp4(ones(2, 2), False, 0, "fp3"),
    "reduceAxis is None; expected a dimension": lambda: of_cast(2, 0),
    "reduceAxis is 2; expected a dimension": lambda: of_cast(2, 0, reduceAxis=2),
    "scale_mode is 3; expected 0, 1 or 2": lambda: of_cast(3, 0),
    "scale_type is 2; expected 0 or 1": lambda: of_cast(1, 2),
    "backoff is 0.0; expected a number above 0": lambda: of_cast(1, 0, backoff=0.0),
    "calculate_scale_for_cast: input is a int64 tensor .* floating-point": lambda: of_cast(1, 0, x=integers(2, 2)),
    "high is 3; expected more than low, 3": lambda: ops.habana_randint(integers(1).int(), 3, 3, [2]),
    "num_samples is 3; expected at most 2": lambda: ops.habana_multinomial(integers(1).int(), ones(2), 3),
    "p is 2.0; expected a probability": lambda: ops.habana_native_dropout(integers(1).int(), ones(2), 2.0, True),
    "start_end is .*; expected 4 / grouped_batch_size pairs": lambda: ops.scaled_masked_triangular_softmax(
        ones(4, 2, 5, 5), ones(3, 2), 1.0, 2, True, 0
    ),
    "block_sums is .*; expected shape": lambda: ops.block_softmax_adjustment(
        ones(4, 2, 5, 5), ones(1, 2, 5, 5), ones(4), 1
    ),
    "CastToFp8V2 must have no amax for float8.": lambda: ops.cast_to_fp8_v2(fp8(3, 4), None, False, True),
    r"must have the same dtype for float8, but are Float8_e4m3fn and Float8_e5m2\.": lambda: ops.cast_to_fp8_v2(
        fp8(3, 4), None, dtype=E5M2
    ),
    "dtype is torch.int8; expected torch.float8_e5m2": lambda: ops.cast_to_fp8_v2(ones(3, 4), None, dtype=torch.int8),
    "input is a int64 tensor of shape .3, 4.": lambda: ops.cast_to_fp8_v2(integers(3, 4)),
    "scale is a float32 tensor of shape .2. .*broadcasts": lambda: ops.cast_to_fp8_v2(ones(3, 4), [1.0, 2.0]),
    "scale_shape is .3.; expected a shape of 2": lambda: ops.cast_to_fp8_v2(ones(3, 4), [1.0, 2.0], scale_shape=[3]),
    "cast_from_fp8: input is a float32 tensor": lambda: ops.cast_from_fp8(ones(3, 4), None, torch.float32),
    "B is .*; expected 4 rows": lambda: gemm(fp8(3, 4), fp8(3, 4)),
    "fp8_gemm_v2: out_dtype is torch.int32": lambda: gemm(fp8(3, 4), fp8(4, 3), out_dtype=torch.int32),
    "D is None; expected": lambda: gemm(fp8(3, 4), fp8(4, 3), None, None, None, True),
    "A_scale_inv is .*expected 1": lambda: gemm(fp8(3, 4), fp8(4, 3), ones(3, 4), ones(3, 4)),
    "A is .*; expected one dimension": lambda: gemm(fp8(), fp8(4, 3)),
    "sum_fp8: dim is .5.; expected": lambda: ops.sum_fp8(ones(3, 4), [5]),
    "sum_fp8: dim is .0, 0.; expected": lambda: ops.sum_fp8(ones(3, 4), [0, 0]),
    "sum_fp8: self is a int64 tensor": lambda: ops.sum_fp8(integers(3, 4)),
    "sum_fp8: out_dtype is torch.int32": lambda: ops.sum_fp8(ones(3, 4), [0], False, torch.int32),
    "scale is .*.2. on hpu:0": lambda: ops.cast_to_fp8_hybrid(ones(3, 4), ones(2)),
    "rotary_pos_embedding: input is .*; expected an even last dimension": lambda: turn((1, 2, 5, 7), (9, 8)),
    "rotary_pos_embedding: cos is .*; expected 5 positions": lambda: turn((1, 2, 5, 8), (4, 8)),
    "rotary_pos_embedding: cos is .*; expected 7 positions": lambda: turn((1, 2, 5, 8), (6, 8), offset=2),
    "rotary_pos_embedding: mode is 2; expected 0": lambda: turn((1, 2, 5, 8), (9, 8), mode=2),
    "rotary_pos_embedding: cos is .*; expected a last dimension of 12": lambda: turn((1, 2, 5, 12), (9, 8)),
    "rotary_pos_embedding: position_ids is .*batch, 5": lambda: turn((1, 2, 5, 8), (9, 8), (5,)),
    r"rotary_pos_embedding: cos is .*\[4, 1, 8\].*expected .*positions": lambda: turn((5, 6, 7, 8), (4, 1, 8)),
    r"rotary_pos_embedding: cos is .*\[9, 3, 8\].*broadcasts to \[2, 3, 5, 8\]": lambda: turn((2, 3, 5, 8), (9, 3, 8)),
    r"rotary_pos_embedding: position_ids is .*\[3, 4\]": lambda: turn((2, 3, 5, 8), (9, 1, 8), (3, 4)),
    "k is .*; expected a last dimension of 4": lambda: sdpa(k=ones(1, 2, 5, 3)),
    "v is .*; expected 5 positions": lambda: sdpa(v=ones(1, 2, 6, 4)),
    "k is .*divides q's 2": lambda: sdpa(k=ones(1, 3, 5, 4), v=ones(1, 3, 5, 4)),
    "p is 1.5; expected a probability": lambda: sdpa(p=1.5),
    "softmax_mode is 'slow'; expected one of None, fast, fp32": lambda: sdpa(softmax_mode="slow"),
    "valid_seq_len is .*one length for each of the 1 sequences": lambda: sdpa(valid_seq_len=ones(3)),
    "seq_padding_type is 'top'": lambda: sdpa(valid_seq_len=ones(1), seq_padding_type="top"),
    "quantized_decomposed::.*input is a int32 tensor": lambda: affine.quantize_per_tensor(
        ones(2, 3).int(), 1.0, 0, 0, 9, torch.int8
    ),
    "quantized_decomposed::.*axis is 2; expected a dimension": lambda: per_channel(axis=2),
    r"quantized_decomposed::.*scales is .*expected \[3\]": lambda: per_channel(scales=2),
    r"quantized_decomposed::.*zero_points is .*\[2\]": lambda: per_channel(zeros=2),
    "quantized_decomposed::.*input is a float32 .*torch.int8": lambda: affine.dequantize_per_tensor(
        ones(2, 3), 1.0, 0, 0, 9, torch.int8
    ),
    "quantized_decomposed::.*input is a float32 .*float8_e4m3fn": lambda: affine.dequantize_per_channel(
        ones(2, 3), ones(3), integers(3), 1, 0, 9, E4M3
    ),
}


@pytest.mark.parametrize("message", MESSAGES)
def test_the_message_says_what_was_given_and_expected(message):
    with pytest.raises(RuntimeError, match=message):
        MESSAGES[message]()
