#include "run/VendorFamilies.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/_adaptive_avg_pool2d.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/add.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/amin.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/argmin.h>
#include <ATen/ops/bernoulli.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ceil.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/cumprod.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/div.h>
#include <ATen/ops/elu.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/expm1.h>
#include <ATen/ops/eye.h>
#include <ATen/ops/flip.h>
#include <ATen/ops/floor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gather.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/leaky_relu.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/log.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/logit.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/mse_loss.h>
#include <ATen/ops/nll_loss.h>
#include <ATen/ops/prod.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/repeat_interleave.h>
#include <ATen/ops/round.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/sign.h>
#include <ATen/ops/sin.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/topk.h>
#include <ATen/ops/tril.h>
#include <ATen/ops/triu.h>
#include <ATen/ops/trunc.h>
#include <ATen/ops/var_mean.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <synapse_common_types.hpp>

namespace openhpu::vendor {
namespace {

template <class... Structs>
Params of(const char* name) {
  return {name, {sizeof(Structs)...}};
}
template <class... Structs>
Params optional(const char* name) {
  return {name, {sizeof(Structs)...}, true};
}

// --- what they compute ---
using Unary = Tensor (*)(const Tensor&);
template <Unary compute>
void unary(Call& call) {
  call.give(compute(call.in[0]));
}

void relu(Call& call) {
  require(
      call.params<ns_ReluKernel::Params>().threshold.i == 0,
      "no public document says what a threshold other than 0 does; give the guid a kernel of your own");
  call.give(at::relu(call.in[0]));
}
void selu(Call& call) {
  const auto params = call.params<ns_SeluKernel::Params>();
  const auto x = call.wide(0);
  call.give(at::where(x > 0, x, at::expm1(x) * params.alpha) * params.gamma);
}
void div_mod(Call& call) {
  const char* rounding = call.params<ns_DivModKernel::Params>().isPyCompatible ? "floor" : "trunc";
  const auto quotient = at::div(call.in[0], call.in[1], rounding);
  call.give(quotient, 0);
  call.give(call.in[0] - quotient * call.in[1], 1);
}
Tensor round_half_away(const Tensor& x) {
  const auto whole = at::trunc(x);
  return whole + at::where(at::abs(x - whole) >= 0.5, at::sign(x), at::zeros_like(x));
}
void round(Call& call) {
  const bool even = call.params<ns_RoundKernel::Params>().roundMode == ROUND_HALF_NEAREST_EVEN;
  call.give(even ? at::round(call.in[0]) : round_half_away(call.in[0]));
}
void shrink(Call& call) {
  const auto params = call.params<ns_ShrinkKernel::Params>();
  const auto x = call.wide(0);
  call.give(at::where(x > params.lambda, x - params.bias, at::where(x < -params.lambda, x + params.bias, 0.0)));
}
void isinf(Call& call) {
  auto params = call.params<ns_IsInfKernel::Params>();
  if (!call.call.params) params.detect_negative = params.detect_positive = 1;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto& x = call.in[0];
  call.give(((x == kInfinity) * (params.detect_positive != 0)) + ((x == -kInfinity) * (params.detect_negative != 0)));
}
void cast(Call& call) {
  const auto& x = call.in[0];
  const auto mode = call.call.params ? call.params<ns_CastKernel::Params>().round_mode : CAST_ROUND_DEFAULT;
  const bool to_integer = c10::isIntegralType(call.guid.to, true);
  if (!c10::isFloatingType(x.scalar_type()) || mode == CAST_ROUND_DEFAULT) return call.give(x);
  if (!to_integer) {
    require(
        mode == CAST_ROUND_HALF_NE,
        "a cast to a float rounds to the nearest, ties to even; its params ask for mode " + std::to_string(mode));
    return call.give(x);
  }
  switch (mode) {
    case CAST_ROUND_HALF_NE:
      return call.give(at::round(x));
    case CAST_ROUND_DOWN:
      return call.give(at::floor(x));
    case CAST_ROUND_UP:
      return call.give(at::ceil(x));
    case CAST_ROUND_ZERO:
      return call.give(at::trunc(x));
    case CAST_ROUND_HALF_AZ:
      return call.give(round_half_away(x));
    default:
      require(false, "its params ask for rounding mode " + std::to_string(mode) + ", which has no kernel here");
  }
}

void layer_norm(Call& call) {
  const auto params = call.params<ns_LayerNormKernel::ParamsNorm>();
  const auto x = call.wide(0);
  const int axes = call.has<ns_LayerNormKernel::ParamsNorm>() ? params.NormAxisBmp : 1;
  std::vector<int64_t> dims;
  for (int axis = 0; axis < 31; ++axis)
    if (axes >> axis & 1) dims.push_back(call.dim(axis));
  const auto [variance, mean] = at::var_mean(x, dims, 0, true);
  call.give((x - mean) * at::rsqrt(variance + (params.epsValid ? params.eps : 1e-5)));
}
void lp_norm(Call& call) {
  const auto params = call.params<ns_LpNormKernel::ParamsNorm>();
  const auto x = call.wide(0);
  const auto norm = at::linalg_vector_norm(x, params.p, call.dim(params.dim), true);
  call.give(x / (params.epsMax ? norm.clamp_min(params.eps) : norm + params.eps));
}
template <auto compute>
void reduce(Call& call) {
  call.give(compute(call.wide(0), call.dim(call.params<ns_Reduction::Params>().reductionDimension)));
}
template <auto compute, class Params>
void cumulate(Call& call) {
  const auto params = call.params<Params>();
  const auto dim = call.dim(params.axis);
  auto x = call.wide(0);
  if (params.reverse) x = at::flip(x, dim);
  auto y = compute(x, dim);
  if (params.exclusive && x.dim() > 0 && x.size(dim) > 0) {
    auto first = x.narrow(dim, 0, 1);
    first = compute(first.narrow(dim, 0, 0).sum(dim, true), dim);  // of no elements: 0
    if constexpr (std::is_same_v<Params, ns_CumProdKernel::Params>) first = first + 1;
    y = at::cat({first, y.narrow(dim, 0, x.size(dim) - 1)}, dim);
  }
  call.give(params.reverse ? at::flip(y, dim) : y);
}

void top_k(Call& call) {
  const auto params = call.params<synBeamParams>();
  const auto [values, indices] = at::topk(call.in[0], params.bsw, call.dim(params.axis), !params.bottomK);
  call.give(values, 0);
  call.give(indices, 1);
}
void tile(Call& call) {
  const auto params = call.params<ns_TileKernel::ParamsV2>();
  const size_t given = call.call.params_size / sizeof(int);
  const auto dims = static_cast<size_t>(call.in[0].dim());
  std::vector<int64_t> repeats(std::max(dims, size_t{1}), 1);
  for (size_t axis = 0; axis < given; ++axis) {
    if (axis < repeats.size())
      repeats[repeats.size() - 1 - axis] = params.repeat[axis];
    else
      require(params.repeat[axis] <= 1, "its params repeat more dimensions than the operand has");
  }
  call.give(call.in[0].repeat(repeats));
}
void gather(Call& call) {
  const auto dim = call.dim(call.params<ns_GatherKernel::Params>().axis);
  call.give(at::index_select(call.in[0], dim, call.in[1].flatten().to(at::kLong)));
}
void one_hot(Call& call) {
  const auto params = call.params<ns_OneHotKernel::Params>();
  const auto dim = call.dim_of(params.axis, call.out[0].dim());
  std::vector<int64_t> sizes(call.out[0].dim(), 1);
  sizes[dim] = params.depth;
  const auto hot = call.in[0].unsqueeze(dim) == at::arange(params.depth).view(sizes);
  call.give(at::where(hot, at::full({}, params.on_value), at::full({}, params.off_value)));
}
void band_part(Call& call) {
  const auto params = call.params<ns_MatrixBandPartKernel::Params>();
  auto x = call.in[0];
  if (params.numUpper >= 0) x = at::tril(x, params.numUpper);
  if (params.numLower >= 0) x = at::triu(x, -params.numLower);
  call.give(x);
}
void eye_like(Call& call) {
  const auto sizes = call.out[0].sizes();
  require(
      sizes.size() == 2,
      "it gives a matrix, but the operator's callback says " + std::to_string(sizes.size()) + " dimensions");
  const int k = call.params<ns_EyeLikeKernel::Params>().k;
  const auto side = sizes[0] + sizes[1] + std::abs(k);
  call.give(at::eye(side, side).narrow(0, std::max(k, 0), sizes[0]).narrow(1, std::max(-k, 0), sizes[1]));
}
void range(Call& call) {
  const auto params = call.params<ns_RangeKernel::Params>();
  call.give(at::arange(call.number(params.start), call.number(params.limit), call.number(params.delta)));
}
at::Generator generator(unsigned int seed) { return at::make_generator<at::CPUGeneratorImpl>(seed); }
void random_uniform(Call& call) {
  const auto params = call.params<ns_RandomUniform::Params>();
  call.give(at::empty(call.out[0].sizes()).uniform_(params.low, params.high, generator(params.seed)));
}
void random_normal(Call& call) {
  const auto params = call.params<ns_RandomNormal::Params>();
  call.give(at::empty(call.out[0].sizes()).normal_(params.mean, params.stddev, generator(params.seed)));
}

int64_t reduction_of(int mode) {
  constexpr int64_t kReductions[] = {at::Reduction::Mean, at::Reduction::Sum, at::Reduction::None};
  require(mode >= 0 && mode < 3, "its params name the mode " + std::to_string(mode));
  return kReductions[mode];
}
void nll_loss(Call& call) {
  const auto params = call.params<ns_NLLLossKernel::ParamsOptionalIgnoreIndex>();
  const int64_t ignored = call.has<ns_NLLLossKernel::ParamsOptionalIgnoreIndex>() ? params.ignoreIndexValue : -100;
  call.give(at::nll_loss(call.in[0], call.in[1].to(at::kLong), {}, reduction_of(params.mode), ignored));
}
void mse_loss(Call& call) {
  call.give(at::mse_loss(call.in[0], call.in[1], reduction_of(call.params<ns_MSELossKernel::Params>().mode)));
}
// Images are N x H x W x C.
void adaptive_avg_pool(Call& call) {
  const auto params = call.params<ns_AdaptiveAvgPool::Params>();
  const auto x = call.in[0].permute({0, 3, 1, 2});
  call.give(at::_adaptive_avg_pool2d(x, {params.outputHeight, params.outputWidth}).permute({0, 2, 3, 1}));
}

// --- the table ---
// Documents.
constexpr const char* kApi = "PyTorch CustomOp API";
constexpr const char* kParams = "perf_lib_layer_params.h";
constexpr const char* kTests = "tests of SynapseAI Core";
constexpr const char* kAlike = "none; named as the others are";

constexpr const char* kFloats = "f32 bf16 f16";

template <auto compute>
Family reduction(const char* name, const char* computes, const char* dtypes = kFloats, Operands kind = Operands::Same) {
  const char* operands = kind == Operands::Same ? "x -> y" : "x -> indices";
  return {name,     dtypes, operands, 1, 1, kind, of<ns_Reduction::Params>("ns_Reduction::Params"), &reduce<compute>,
          computes, kParams};
}

}  // namespace

const std::vector<Family>& families() {
  static const std::vector<Family> all{
      {"relu", "f32 bf16 f16 i8 u8 i16", "x -> y", 1, 1, Operands::Same,
       optional<ns_ReluKernel::Params>("ns_ReluKernel::Params"), &relu, "relu",
       "PyTorch CustomOp API, perf_lib_layer_params.h"},
      {"sigmoid", kFloats, "x -> y", 1, 1, Operands::Same, {}, &unary<&at::sigmoid>, "sigmoid", kApi},
      {"gelu", kFloats, "x -> y", 1, 1, Operands::Same, {}, [](Call& c) { c.give(at::gelu(c.in[0])); }, "gelu", kAlike},
      {"sin", kFloats, "x -> y", 1, 1, Operands::Same, {}, &unary<&at::sin>, "sin", kTests},
      {"rsqrt", kFloats, "x -> y", 1, 1, Operands::Same, optional<ns_RsqrtKernel::Params>("ns_RsqrtKernel::Params"),
       &unary<&at::rsqrt>, "rsqrt", kParams},
      {"add",
       "f32 bf16 f16 i8 u8 i16 i32",
       "a, b -> y",
       2,
       1,
       Operands::Same,
       {},
       [](Call& c) { c.give(at::add(c.in[0], c.in[1])); },
       "add",
       "PyTorch CustomOp API, tests of SynapseAI Core"},
      {"div_mod", "i8 i16 i32", "a, b -> quotient, remainder", 2, 2, Operands::Same,
       optional<ns_DivModKernel::Params>("ns_DivModKernel::Params"), &div_mod, "div with rounding_mode, and the rest",
       kParams},
      {"clamp", "f32 bf16 f16 i8 i16", "x -> y", 1, 1, Operands::Same,
       of<ns_ClampKernel::Params>("ns_ClampKernel::Params"),
       [](Call& c) {
         const auto params = c.params<ns_ClampKernel::Params>();
         c.give(at::clamp(c.in[0], c.number(params.lowerBound), c.number(params.upperBound)));
       },
       "clamp", kParams},
      {"hard_sigmoid", kFloats, "x -> y", 1, 1, Operands::Same,
       of<ns_HardSigmoidKernel::Params>("ns_HardSigmoidKernel::Params"),
       [](Call& c) {
         const auto params = c.params<ns_HardSigmoidKernel::Params>();
         c.give(at::clamp(c.wide(0) * params.alpha + params.beta, 0, 1));
       },
       "clamp(alpha x + beta, 0, 1)", kParams},
      {"selu", kFloats, "x -> y", 1, 1, Operands::Same,
       of<ns_SeluKernel::Params, ns_SeluKernel::ParamsV2>("ns_SeluKernel::Params"), &selu,
       "gamma (x where x > 0, else alpha expm1(x))", kParams},
      {"elu", kFloats, "x -> y", 1, 1, Operands::Same,
       of<ns_EluKernel::Params, ns_EluKernel::ParamsV2>("ns_EluKernel::Params"),
       [](Call& c) { c.give(at::elu(c.in[0], c.params<ns_EluKernel::Params>().alpha)); }, "elu", kParams},
      {"leakyrelu", kFloats, "x -> y", 1, 1, Operands::Same,
       of<ns_LeakyReluKernel::Params>("ns_LeakyReluKernel::Params"),
       [](Call& c) { c.give(at::leaky_relu(c.in[0], c.params<ns_LeakyReluKernel::Params>().alpha)); }, "leaky_relu",
       kParams},
      {"round", kFloats, "x -> y", 1, 1, Operands::Same, optional<ns_RoundKernel::Params>("ns_RoundKernel::Params"),
       &round, "round; by default ties go away from zero", kParams},
      {"shrink", kFloats, "x -> y", 1, 1, Operands::Same, of<ns_ShrinkKernel::Params>("ns_ShrinkKernel::Params"),
       &shrink, "x - bias where x > lambda, x + bias where x < -lambda, else 0", kParams},
      {"logit", kFloats, "x -> y", 1, 1, Operands::Same, of<ns_LogitKernel::Params>("ns_LogitKernel::Params"),
       [](Call& c) { c.give(at::logit(c.in[0], c.params<ns_LogitKernel::Params>().epsilon)); }, "logit", kParams},
      {"isinf", kFloats, "x -> mask", 1, 1, Operands::Mask, optional<ns_IsInfKernel::Params>("ns_IsInfKernel::Params"),
       &isinf, "isposinf, isneginf", kParams},
      {"cast", "f32 bf16 f16 i8 u8 i16 i32", "x -> y", 1, 1, Operands::Same,
       optional<ns_CastKernel::Params>("ns_CastKernel::Params"), &cast,
       "to(dtype); with params round, floor, ceil or trunc before", kParams},
      {"memcpy", "", "x -> y", 1, 1, Operands::Same, {}, [](Call& c) { c.give(c.in[0]); }, "clone", kTests},

      {"softmax", kFloats, "x -> y", 1, 1, Operands::Same, of<ns_Softmax::Params>("ns_Softmax::Params"),
       [](Call& c) { c.give(at::softmax(c.in[0], c.dim(c.params<ns_Softmax::Params>().dim))); }, "softmax", kParams},
      {"logsoftmax", kFloats, "x -> y", 1, 1, Operands::Same, of<ns_Softmax::Params>("ns_Softmax::Params"),
       [](Call& c) { c.give(at::log_softmax(c.in[0], c.dim(c.params<ns_Softmax::Params>().dim))); }, "log_softmax",
       kParams},
      {"layer_norm", kFloats, "x -> y", 1, 1, Operands::Same,
       optional<ns_LayerNormKernel::Params, ns_LayerNormKernel::ParamsNorm>("ns_LayerNormKernel::Params"), &layer_norm,
       "layer_norm without weight and bias, over the last dimension or those of NormAxisBmp", kParams},
      {"lpnorm", kFloats, "x -> y", 1, 1, Operands::Same,
       of<ns_LpNormKernel::Params, ns_LpNormKernel::ParamsNorm>("ns_LpNormKernel::Params"), &lp_norm,
       "x / (vector_norm(x, p) + eps)", kParams},
      {"cumsum", kFloats, "x -> y", 1, 1, Operands::Same, of<ns_CumSumKernel::Params>("ns_CumSumKernel::Params"),
       &cumulate<[](const Tensor& x, int64_t dim) { return at::cumsum(x, dim); }, ns_CumSumKernel::Params>, "cumsum",
       kParams},
      {"cumprod", kFloats, "x -> y", 1, 1, Operands::Same, of<ns_CumProdKernel::Params>("ns_CumProdKernel::Params"),
       &cumulate<[](const Tensor& x, int64_t dim) { return at::cumprod(x, dim); }, ns_CumProdKernel::Params>, "cumprod",
       kParams},
      {"topk", "", "x -> values, indices", 1, 2, Operands::IndexOut, of<synBeamParams>("synBeamParams"), &top_k, "topk",
       kApi},

      reduction<[](const Tensor& x, int64_t dim) { return at::sum(x, dim); }>(
          "reduce_sum", "sum", "f32 bf16 f16 i8 i16"),
      reduction<[](const Tensor& x, int64_t dim) { return at::mean(x, dim); }>("reduce_mean", "mean"),
      reduction<[](const Tensor& x, int64_t dim) { return at::prod(x, dim); }>("reduce_prod", "prod"),
      reduction<[](const Tensor& x, int64_t dim) { return at::amax(x, dim); }>("reduce_max", "amax"),
      reduction<[](const Tensor& x, int64_t dim) { return at::amin(x, dim); }>("reduce_min", "amin"),
      reduction<[](const Tensor& x, int64_t dim) { return at::linalg_vector_norm(x, 1, dim); }>(
          "reduce_L1", "vector_norm(x, 1)"),
      reduction<[](const Tensor& x, int64_t dim) { return at::linalg_vector_norm(x, 2, dim); }>(
          "reduce_L2", "vector_norm(x, 2)"),
      reduction<[](const Tensor& x, int64_t dim) { return at::sum(x * x, dim); }>("reduce_sum_square", "sum(x * x)"),
      reduction<[](const Tensor& x, int64_t dim) { return at::log(at::sum(x, dim)); }>("reduce_log_sum", "log(sum(x))"),
      reduction<[](const Tensor& x, int64_t dim) { return at::logsumexp(x, dim); }>("reduce_log_sum_exp", "logsumexp"),
      reduction<[](const Tensor& x, int64_t dim) { return at::argmax(x, dim); }>(
          "argmax", "argmax", "f32 bf16 f16 i8 i16", Operands::IndexOut),
      reduction<[](const Tensor& x, int64_t dim) { return at::argmin(x, dim); }>(
          "argmin", "argmin", "f32 bf16 f16 i8 i16", Operands::IndexOut),
      {"reduce_Lp", kFloats, "x -> y", 1, 1, Operands::Same, of<ns_ReduceLp::Params>("ns_ReduceLp::Params"),
       [](Call& c) {
         const auto params = c.params<ns_ReduceLp::Params>();
         c.give(at::linalg_vector_norm(c.wide(0), static_cast<int64_t>(params.p), c.dim(params.reductionDimension)));
       },
       "vector_norm(x, p)", kParams},

      {"tile", "f32 bf16 f16 i32", "x -> y", 1, 1, Operands::Same,
       of<ns_TileKernel::Params, ns_TileKernel::ParamsV2>("ns_TileKernel::Params"), &tile, "repeat", kParams},
      {"repeat", "f32 bf16 f16 i32", "x -> y", 1, 1, Operands::Same,
       of<ns_RepeatKernel::Params>("ns_RepeatKernel::Params"),
       [](Call& c) {
         const auto params = c.params<ns_RepeatKernel::Params>();
         c.give(at::repeat_interleave(c.in[0], params.repeats, c.dim(params.axis)));
       },
       "repeat_interleave", kParams},
      {"gather", "f32 bf16 f16 i32", "x, indices -> y", 2, 1, Operands::IndexIn,
       of<ns_GatherKernel::Params>("ns_GatherKernel::Params"), &gather, "index_select", kParams},
      {"gather_elements", "f32 bf16 f16 i32", "x, indices -> y", 2, 1, Operands::IndexIn,
       of<ns_GatherElementsKernel::Params>("ns_GatherElementsKernel::Params"),
       [](Call& c) {
         const auto dim = c.dim(c.params<ns_GatherElementsKernel::Params>().axis);
         c.give(at::gather(c.in[0], dim, c.in[1].to(at::kLong)));
       },
       "gather", kParams},
      {"flip", "f32 bf16 f16 i32", "x -> y", 1, 1, Operands::Same, of<ns_FlipKernel::Params>("ns_FlipKernel::Params"),
       [](Call& c) { c.give(at::flip(c.in[0], c.dim(c.params<ns_FlipKernel::Params>().axis))); }, "flip", kParams},
      {"reverse", "f32 bf16 f16 i32", "x -> y", 1, 1, Operands::Same,
       of<ns_ReverseKernel::Params>("ns_ReverseKernel::Params"),
       [](Call& c) { c.give(at::flip(c.in[0], c.dim(c.params<ns_ReverseKernel::Params>().axis))); }, "flip", kParams},
      {"one_hot", kFloats, "indices -> y", 1, 1, Operands::Result,
       of<ns_OneHotKernel::Params>("ns_OneHotKernel::Params"), &one_hot,
       "where(one_hot(indices, depth), on_value, off_value)", kParams},
      {"matrix_band_part", kFloats, "x -> y", 1, 1, Operands::Same,
       of<ns_MatrixBandPartKernel::Params>("ns_MatrixBandPartKernel::Params"), &band_part,
       "triu(tril(x, numUpper), -numLower)", kParams},
      {"eye_like", kFloats, "x -> y", 1, 1, Operands::Same,
       optional<ns_EyeLikeKernel::Params>("ns_EyeLikeKernel::Params"), &eye_like, "eye with its ones on diagonal k",
       kParams},

      {"constant", "f32 bf16 f16 i8 i16 i32", "-> y", 0, 1, Operands::Same,
       of<ns_ConstantKernel::Params>("ns_ConstantKernel::Params"),
       [](Call& c) { c.out[0].fill_(c.number(c.params<ns_ConstantKernel::Params>().constant)); }, "full",
       "perf_lib_layer_params.h, HabanaAI/vllm-fork issue 484"},
      {"range", "f32 bf16 f16 i8 i16 i32", "-> y", 0, 1, Operands::Same,
       of<ns_RangeKernel::Params>("ns_RangeKernel::Params"), &range, "arange", kParams},
      {"random_uniform", kFloats, "-> y", 0, 1, Operands::Same,
       of<ns_RandomUniform::Params>("ns_RandomUniform::Params"), &random_uniform,
       "uniform_ of a generator with this seed", kParams},
      {"random_normal", kFloats, "-> y", 0, 1, Operands::Same, of<ns_RandomNormal::Params>("ns_RandomNormal::Params"),
       &random_normal, "normal_ of a generator with this seed", kParams},
      {"random_bernoulli", kFloats, "probabilities -> y", 1, 1, Operands::Same,
       of<ns_RandomBernoulli::Params>("ns_RandomBernoulli::Params"),
       [](Call& c) { c.give(at::bernoulli(c.in[0], generator(c.params<ns_RandomBernoulli::Params>().seed))); },
       "bernoulli of a generator with this seed", kParams},

      {"nll_loss", "f32 bf16", "log_probabilities, targets -> loss", 2, 1, Operands::IndexIn,
       of<ns_NLLLossKernel::Params, ns_NLLLossKernel::ParamsOptionalIgnoreIndex>("ns_NLLLossKernel::Params"), &nll_loss,
       "nll_loss", kParams},
      {"mse_loss", "f32 bf16", "x, targets -> loss", 2, 1, Operands::Same,
       of<ns_MSELossKernel::Params>("ns_MSELossKernel::Params"), &mse_loss, "mse_loss", kParams},
      {"adaptive_avg_pool_2d", "f32 bf16", "x (N x H x W x C) -> y", 1, 1, Operands::Same,
       of<ns_AdaptiveAvgPool::Params>("ns_AdaptiveAvgPool::Params"), &adaptive_avg_pool, "adaptive_avg_pool2d",
       kParams},
  };
  return all;
}

}  // namespace openhpu::vendor
