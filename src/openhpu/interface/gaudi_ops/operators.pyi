"""The arguments of Gaudi's operators: a class for each function of operators.tsv. Written by `make docs`."""

import torch
from torch import Tensor

from openhpu.interface.gaudi_ops.arguments import Arguments

class CastToFp8V2(Arguments):
    input: Tensor
    scale: Tensor | float | list[float] | None
    stochastic_rounding: bool
    is_amax: bool
    dtype: torch.dtype | None
    scale_shape: list[int] | None

class CastToFp8(Arguments):
    input: Tensor
    scale: Tensor | None
    stochastic_rounding: bool
    out: Tensor
    amax: Tensor

class CastToFp8Hybrid(Arguments):
    input: Tensor
    scale_152: Tensor | None
    scale_143: Tensor | None
    stochastic_rounding: bool
    is_amax: bool

class CastFromFp8(Arguments):
    input: Tensor
    scale: Tensor | float | list[float] | None
    out_dtype: torch.dtype
    scale_shape: list[int] | None

class Fp8GemmV2(Arguments):
    A: Tensor
    trans_A: bool
    B: Tensor
    trans_B: bool
    D: Tensor | None
    out_dtype: torch.dtype
    A_scale_inv: Tensor | float | list[float] | None
    B_scale_inv: Tensor | float | list[float] | None
    bias: Tensor | None
    accumulate: bool
    B_scale_shape: list[int] | None

class Fp8Gemm(Arguments):
    A: Tensor
    trans_A: bool
    B: Tensor
    trans_B: bool
    D: Tensor
    out_dtype: torch.dtype
    A_scale_inv: Tensor | None
    B_scale_inv: Tensor | None
    bias: Tensor | None
    accumulate: bool
    out: Tensor

class Conv2dFp8(Arguments):
    input: Tensor
    weight: Tensor
    bias: Tensor | None
    stride: list[int]
    padding: list[int]
    dilation: list[int]
    groups: int
    out_dtype: torch.dtype | None
    scale_input: Tensor | float | None
    scale_weight: Tensor | float | None

class SumFp8(Arguments):
    self: Tensor
    dim: list[int] | None
    keepdim: bool
    out_dtype: torch.dtype | None

class SoftmaxFp8(Arguments):
    input: Tensor
    dim: int
    input_scale: Tensor | float | None
    output_scale: Tensor | float | None
    inv_attn_heads: Tensor | float | None
    fused_add: Tensor | None

class ConvertFromInt4(Arguments):
    input: Tensor
    scale: Tensor
    zero_point: Tensor | None
    out_dtype: torch.dtype
    group_index: Tensor | None

class DequantizeNf4(Arguments):
    input: Tensor
    absmax: Tensor
    blocksize: int
    out_shape: list[int]
    out_dtype: torch.dtype

class FakeQuantFp4(Arguments):
    input: Tensor
    stochastic_rounding: bool
    axis: int
    dtype: str

class CalculateScaleForCast(Arguments):
    input: Tensor
    scale_mode: int
    scale_type: int
    reduceAxis: int | None
    reduceKeepdim: bool
    fullscale: float
    backoff: float

class SdpaFwd(Arguments):
    q: Tensor
    k: Tensor
    v: Tensor
    attention_mask: Tensor | None
    p: float
    scale: float
    is_causal: bool
    softmax_mode: str
    valid_seq_len: Tensor | None
    seq_padding_type: str
    seed: Tensor | None

class SdpaBwd(Arguments):
    grad: Tensor
    q: Tensor
    k: Tensor
    v: Tensor
    P: Tensor
    dm: Tensor | None
    is_causal: bool
    p: float
    scale: float
    fwd_out: Tensor

class SdpaRecompFwd(Arguments):
    q: Tensor
    k: Tensor
    v: Tensor
    attention_mask: Tensor | None
    p: float
    scale: float
    is_causal: bool
    requires_backward: bool
    softmax_mode: str
    valid_seq_len: Tensor | None
    seq_padding_type: str
    seed: Tensor | None

class SdpaRecompBwd(Arguments):
    grad: Tensor
    q: Tensor
    k: Tensor
    v: Tensor
    attention_mask: Tensor | None
    m: Tensor
    linv: Tensor
    seed: Tensor | None
    is_causal: bool
    p: float
    scale: float
    softmax_mode: str
    fwd_out: Tensor

class Fp8SdpaFwd(Arguments):
    q: Tensor
    k: Tensor
    v: Tensor
    attention_mask: Tensor | None
    p: float
    scale: float
    is_causal: bool
    softmax_mode: str
    d_scale_q: Tensor | None
    d_scale_k: Tensor | None
    d_scale_v: Tensor | None
    q_scale_s: Tensor | None
    q_scale_o: Tensor | None
    d_scale_s: Tensor | None
    is_amax_s: bool
    valid_seq_len: Tensor | None
    seq_padding_type: str
    seed: Tensor | None

class Fp8SdpaRecompFwd(Arguments):
    q: Tensor
    k: Tensor
    v: Tensor
    attention_mask: Tensor | None
    p: float
    scale: float
    is_causal: bool
    requires_backward: bool
    softmax_mode: str
    d_scale_q: Tensor | float | None
    d_scale_k: Tensor | float | None
    d_scale_v: Tensor | float | None
    q_scale_s: Tensor | float | None
    q_scale_o: Tensor | float | None
    d_scale_s: Tensor | float | None
    is_amax_s: bool
    is_amax_0: bool | None
    valid_seq_len: Tensor | None
    seq_padding_type: str
    window_size: list[int] | None
    sinks: Tensor | None
    seed: Tensor | None
    is_amax_o: bool | None

class Fp8SdpaBwd(Arguments):
    grad: Tensor
    q: Tensor
    k: Tensor
    v: Tensor
    P: Tensor
    dm: Tensor | None
    is_causal: bool
    p: float
    scale: float
    d_scale_q: Tensor | None
    d_scale_k: Tensor | None
    d_scale_v: Tensor | None
    d_scale_s: Tensor | None
    d_scale_do: Tensor | None
    d_scale_ds: Tensor | None
    q_scale_s: Tensor | None
    q_scale_ds: Tensor | None
    is_amax_ds: bool
    fwd_out: Tensor

class ScaledMaskedSoftmax(Arguments):
    input: Tensor
    mask: Tensor
    scale: float

class ScaledTriangularSoftmax(Arguments):
    self: Tensor
    inv_scale_attn: float
    exp_sum_recpr: Tensor | None
    max: Tensor | None

class ScaledTriangularSoftmaxRetain(Arguments):
    self: Tensor
    inv_scale_attn: float

class ScaledMaskedTriangularSoftmax(Arguments):
    self: Tensor
    start_end: Tensor
    inv_scale_attn: float
    grouped_batch_size: int
    use_max: bool
    mode: int
    out_dtype: torch.dtype | None

class CustomSoftmax(Arguments):
    input: Tensor
    flavor: int

class RaggedSoftmax(Arguments):
    self: Tensor
    dim: int
    half_to_float: bool
    valid_count: Tensor

class BlockSoftmax(Arguments):
    attn: Tensor
    block_bias: Tensor | None
    block_groups: Tensor

class BlockSoftmaxAdjustment(Arguments):
    block_maxes: Tensor
    block_sums: Tensor
    block_groups: Tensor
    batch_size: int
    out_shape: list[int] | None

class RotaryPosEmbedding(Arguments):
    input: Tensor
    sin: Tensor
    cos: Tensor
    position_ids: Tensor | None
    offset: int
    mode: int

class RotaryPosEmbeddingBackward(Arguments):
    grad_in: Tensor
    sin: Tensor
    cos: Tensor
    position_ids: Tensor | None
    offset: int
    mode: int

class RmsNorm(Arguments):
    data_in: Tensor
    gamma: Tensor
    epsilon: float

class RmsNormBackward(Arguments):
    grad_in: Tensor
    data_in: Tensor
    gamma: Tensor
    inverse_rms: Tensor
    use_stages: bool
    bwd_mode: int

class FusedClipNorm(Arguments):
    grad: list[Tensor]
    max_norm: Tensor
    norm_type: float

class InstanceNorm(Arguments):
    input: Tensor
    weight: Tensor | None
    bias: Tensor | None
    eps: float

class InstanceNormBackward(Arguments):
    input: Tensor
    grad_in: Tensor
    mean: Tensor
    istd: Tensor
    gamma: Tensor | None

class MixtureOfExperts(Arguments):
    hidden_states: Tensor
    expert_routing_table: Tensor
    router_weights: Tensor
    w1: list[Tensor] | None
    w2: list[Tensor] | None
    w3: list[Tensor]
    permuted_weights: bool
    activation: str
    experts_min: int
    experts_max: int
    chunk_size: int
    total_experts: int
    w12: list[Tensor] | None

class MixtureOfExpertsMeasurement(Arguments):
    hidden_states: Tensor
    expert_routing_table: Tensor
    router_weights: Tensor
    w1: list[Tensor] | None
    w2: list[Tensor] | None
    w3: list[Tensor]
    permuted_weights: bool
    activation: str
    experts_min: int
    experts_max: int
    measurement_mode: bool
    w12: list[Tensor] | None

class MixtureOfExpertsFp8(Arguments):
    hidden_states: Tensor
    expert_routing_table: Tensor
    router_weights: Tensor
    w1: list[Tensor] | None
    w2: list[Tensor] | None
    w3: list[Tensor]
    d_scale_hidden_states: Tensor | float
    d_scale_intermediate_hidden_states: list[Tensor] | list[float]
    d_scale_w1: list[Tensor] | list[float] | None
    d_scale_w2: list[Tensor] | list[float] | None
    d_scale_w3: list[Tensor] | list[float]
    permuted_weights: bool
    activation: str
    experts_min: int
    experts_max: int
    chunk_size: int
    total_experts: int
    w12: list[Tensor] | None
    d_scale_w12: list[Tensor] | list[float] | None

class MixtureOfExpertsBias(Arguments):
    hidden_states: Tensor
    expert_routing_table: Tensor
    router_weights: Tensor
    w12: list[Tensor]
    w3: list[Tensor]
    w12_bias: list[Tensor]
    w3_bias: list[Tensor]
    permuted_weights: bool
    experts_min: int
    experts_max: int
    chunk_size: int
    total_experts: int
    alpha: float
    limit: float

class MixtureOfExpertsBiasMeasurement(Arguments):
    hidden_states: Tensor
    expert_routing_table: Tensor
    router_weights: Tensor
    w12: list[Tensor]
    w3: list[Tensor]
    w12_bias: list[Tensor]
    w3_bias: list[Tensor]
    permuted_weights: bool
    experts_min: int
    experts_max: int
    measure_per_token: bool
    chunk_size: int
    total_experts: int
    alpha: float
    limit: float

class MixtureOfExpertsBiasFp8(Arguments):
    hidden_states: Tensor
    expert_routing_table: Tensor
    router_weights: Tensor
    w12: list[Tensor]
    w3: list[Tensor]
    w12_bias: list[Tensor]
    w3_bias: list[Tensor]
    d_scale_hidden_states: Tensor | float
    d_scale_intermediate_hidden_states: list[Tensor] | list[float]
    d_scale_w12: list[Tensor] | list[float]
    d_scale_w3: list[Tensor] | list[float]
    permuted_weights: bool
    experts_min: int
    experts_max: int
    chunk_size: int
    total_experts: int
    alpha: float
    limit: float

class MixtureOfExpertsMxfp4(Arguments):
    hidden_states: Tensor
    expert_routing_table: Tensor
    router_weights: Tensor
    w12: list[Tensor]
    w3: list[Tensor]
    d_scale_w12: list[Tensor]
    d_scale_w3: list[Tensor]
    block_size: int
    permuted_weights: bool
    activation: str
    experts_min: int
    experts_max: int
    is_fp4: bool
    chunk_size: int
    total_experts: int

class MixtureOfExpertsBiasMxfp4(Arguments):
    hidden_states: Tensor
    expert_routing_table: Tensor
    router_weights: Tensor
    w12: list[Tensor]
    w3: list[Tensor]
    w12_bias: list[Tensor]
    w3_bias: list[Tensor]
    d_scale_w12: list[Tensor]
    d_scale_w3: list[Tensor]
    block_size: int
    permuted_weights: bool
    experts_min: int
    experts_max: int
    is_fp4: bool
    chunk_size: int
    total_experts: int
    alpha: float
    limit: float

class MixtureOfExpertsFp8Dynamic(Arguments):
    hidden_states: Tensor
    expert_routing_table: Tensor
    router_weights: Tensor
    w12: list[Tensor]
    w3: list[Tensor]
    d_scale_hidden_states: Tensor | float
    d_scale_w12: list[Tensor] | list[float]
    d_scale_w3: list[Tensor] | list[float]
    permuted_weights: bool
    activation: str
    experts_min: int
    experts_max: int
    chunk_size: int
    total_experts: int

class KvReorder(Arguments):
    self: Tensor
    start: Tensor
    end: Tensor
    beam_idx: Tensor

class KvReorder_(Arguments):
    self: Tensor
    start: Tensor
    end: Tensor
    beam_idx: Tensor

class InPlaceInterleave(Arguments):
    self: Tensor

class InPlaceInterleave_(Arguments):
    self: Tensor

class PlainIndex(Arguments):
    self: Tensor
    indices: list[Tensor]

class ExpFastMath(Arguments):
    self: Tensor

class SqrtFastMath(Arguments):
    self: Tensor

class RsqrtFastMath(Arguments):
    self: Tensor

class Linear(Arguments):
    input: Tensor
    weight: Tensor
    bias: Tensor | None

class LinearBackward(Arguments):
    self: Tensor
    grad_output: Tensor
    weight: Tensor
    output_mask: list[bool]

class Matmul(Arguments):
    self: Tensor
    other: Tensor

class MatmulBwd(Arguments):
    grad_out: Tensor
    self: Tensor
    other: Tensor

class MaskedBatchGemm(Arguments):
    a: Tensor
    b: Tensor
    mask_a: Tensor
    mask_b: Tensor
    trans_a: bool
    trans_b: bool

class WeightPermutation(Arguments):
    input: Tensor

class Identity(Arguments):
    self: Tensor

class AccumulateGrads_(Arguments):
    variables: list[Tensor]
    new_grads: list[Tensor]

class CustomForeachAdd_(Arguments):
    self: list[Tensor]
    other: list[Tensor]

class EmbeddingBagSum(Arguments):
    input: Tensor
    indices: Tensor
    offsets: Tensor
    valid_count: Tensor
    kernel_mode: int

class EmbeddingBagSumBwdOut(Arguments):
    out: Tensor
    input: Tensor
    indices_bwd: Tensor
    offsets_bwd: Tensor
    valid_count_bwd: Tensor
    kernel_mode: int

class SparseSgd(Arguments):
    gradients: Tensor
    weights_in: Tensor
    moments_in: Tensor
    indices: Tensor
    learning_rate: Tensor
    valid_count_tensor: Tensor
    mom: float
    nesterov: bool

class SparseAdagrad(Arguments):
    gradients: Tensor
    weights_in: Tensor
    moments_in: Tensor
    indices: Tensor
    learning_rate: Tensor
    valid_count_tensor: Tensor

class Permute1d(Arguments):
    permute: Tensor
    lengths: Tensor
    indices: Tensor
    weights: Tensor | None

class Permute2d(Arguments):
    permute: Tensor
    lengths: Tensor
    indices: Tensor
    weights: Tensor | None

class ExpandIntoJaggedPermute(Arguments):
    permute: Tensor
    input_offsets: Tensor
    output_offsets: Tensor
    output_size: int

class BoundsCheckIndices(Arguments):
    indices: Tensor
    offsets: Tensor
    warning: Tensor
    rows_per_table: Tensor
    bounds_check_mode: int
    weights: Tensor | None

class SplitPermuteCat(Arguments):
    input: Tensor
    indices: Tensor
    batch_size: int
    num_features: int
    dims: int

class CtcLossCustom(Arguments):
    log_probs: Tensor
    targets: Tensor
    input_lengths: Tensor
    target_lengths: Tensor
    blank: int
    reduction: int
    zero_infinity: bool

class CtcLossCustomBackward(Arguments):
    grad: Tensor
    log_probs: Tensor
    targets: Tensor
    input_lengths: Tensor
    target_lengths: Tensor
    neg_log_likelihood: Tensor
    log_alpha: Tensor
    blank: int
    reduction: int
    zero_infinity: bool

class HabanaRandomSeed(Arguments):
    input: Tensor

class HabanaSeedGenerator(Arguments):
    seed: Tensor
    counter: Tensor
    size: int

class HabanaRand(Arguments):
    seed: Tensor
    size: list[int]
    dtype: torch.dtype | None
    layout: torch.layout | None
    device: torch.device | None
    pin_memory: bool | None

class HabanaRandn(Arguments):
    seed: Tensor
    size: list[int]
    dtype: torch.dtype | None
    layout: torch.layout | None
    device: torch.device | None
    pin_memory: bool | None

class HabanaRandint(Arguments):
    seed: Tensor
    low: int
    high: int
    size: list[int]
    dtype: torch.dtype | None
    layout: torch.layout | None
    device: torch.device | None
    pin_memory: bool | None

class HabanaRandperm(Arguments):
    seed: Tensor
    n: int
    dtype: torch.dtype | None
    layout: torch.layout | None
    device: torch.device | None
    pin_memory: bool | None

class HabanaBernoulli(Arguments):
    seed: Tensor
    self: Tensor
    p: float | Tensor | None

class HabanaUniform(Arguments):
    seed: Tensor
    self: Tensor
    from_: float
    to: float

class HabanaNativeDropout(Arguments):
    seed: Tensor
    input: Tensor
    p: float
    train: bool | None

class HabanaMultinomial(Arguments):
    seed: Tensor
    self: Tensor
    num_samples: int
    replacement: bool

class OptimizerAdamw(Arguments):
    gradient_vec: list[Tensor]
    weight_vec: list[Tensor]
    exp_avg_vec: list[Tensor]
    exp_avg_sq_vec: list[Tensor]
    neg_step_t: Tensor
    beta1: float
    beta2: float
    epsilon: float
    weight_decay: Tensor
    has_weight_decay: bool
    exp_avg_scales: list[Tensor] | None
    exp_avg_sq_scales: list[Tensor] | None

class OptimizerAdamwLazy(Arguments):
    gradient_vec: list[Tensor]
    weight_vec: list[Tensor]
    exp_avg_vec: list[Tensor]
    exp_avg_sq_vec: list[Tensor]
    neg_step_t: Tensor
    beta1: float
    beta2: float
    epsilon: float
    weight_decay: float
    exp_avg_scales: list[Tensor] | None
    exp_avg_sq_scales: list[Tensor] | None

class OptimizerEma(Arguments):
    model_inputs: list[Tensor]
    updated_ema: list[Tensor]
    decay: Tensor

class OptimizerLars(Arguments):
    params: list[Tensor]
    grads: list[Tensor]
    skip_masks: list[int]
    eeta: float
    weight_decay: float
    eps: float
    lr: Tensor

class LazyLars(Arguments):
    params: list[Tensor]
    grads: list[Tensor]
    lr_t: Tensor
    skip_masks: list[int]
    eeta: float
    weight_decay: float
    eps: float

class OptimizerSgd(Arguments):
    gradients: list[Tensor]
    weights_in: list[Tensor]
    learning_rate: Tensor
    wd: float
    mom: float
    damp: float
    nesterov: bool

class OptimizerSgdMomentum(Arguments):
    gradients: list[Tensor]
    weights_in: list[Tensor]
    momentum_in: list[Tensor]
    epoch_num: Tensor
    learning_rate: Tensor
    mom: Tensor
    wd: float
    damp: float
    nesterov: bool

class OptimizerResourceApplyMomentum(Arguments):
    params_momentum_buf_list: list[Tensor]
    dp_list: list[Tensor]
    momentum: float

class FusedAdagrad(Arguments):
    gradients: list[Tensor]
    weights_in: list[Tensor]
    variances_in: list[Tensor]
    epoch_num: Tensor
    learning_rate: Tensor
    wd: float
    lrd: float
    eps: float

class OptimizerLambFusedNorm(Arguments):
    grad: list[Tensor]
    max_norm: float

class OptimizerLambPhase1(Arguments):
    gradients: list[Tensor]
    weights: list[Tensor]
    exp_avg: list[Tensor]
    exp_avg_sq: list[Tensor]
    out_weight_norms: list[Tensor]
    out_adam_norms: list[Tensor]
    out_adam_steps: list[Tensor]
    clip_global_grad_norm: Tensor
    grad_averaging: int
    beta1: float
    beta2: float
    epsilon: float
    bias_correction1: Tensor
    bias_correction2: Tensor
    weight_decay: float

class OptimizerLambPhase2(Arguments):
    weights: list[Tensor]
    adam_norms: list[Tensor]
    weight_norms: list[Tensor]
    adam_steps: list[Tensor]
    neg_step: Tensor
    wd: float
    use_lamb: bool
