// The fused optimizers' update. It has the operations of openhpu/compiler/program/fused_steps.py, in the same order, so
// that a step here and a step in a recipe have the same bits. PyTorch's own kernels cannot serve: they contract
// products and sums, differently in the vectors of a tensor and in its rest, and no generated code can repeat that.
// PyTorch's SGD is also wrong in bfloat16 and half (2.13). This file is compiled without contraction. So the result of
// an element depends neither on its place nor on the processor.

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <c10/core/DispatchKeySet.h>
#include <ATen/ops/_fused_adagrad_ops.h>
#include <ATen/ops/_fused_adam_ops.h>
#include <ATen/ops/_fused_adamw_ops.h>
#include <ATen/ops/_fused_sgd_ops.h>
#include <torch/library.h>

#include <cmath>

#include "kernels/AdamStep.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define FOR_EACH_PROCESSOR __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FOR_EACH_PROCESSOR
#endif

namespace openhpu {
namespace {

using at::Tensor;
using at::TensorList;

// A thread's share at least; elements that are converted at once.
constexpr int64_t kGrain = 16384, kBlock = 1024;

struct Options {
  bool decoupled = false, amsgrad = false, maximize = false, nesterov = false, first_step = false;
  bool decays = false, moves = false, scales = false;
};

// Numbers of one parameter's step, in the dtype in which it is computed.
template <class T>
struct Numbers {
  T lr{}, weight_decay{}, kept{}, eps{}, beta2{}, one_minus_beta1{}, one_minus_beta2{}, step_size{}, root{};
  T momentum{}, one_minus_dampening{}, grad_scale{};
};

// Of each parameter: itself, its gradient, and its state.
constexpr size_t kMostTensors = 5;
template <class T>
using Block = std::array<T*, kMostTensors>;

template <class T>
[[gnu::always_inline]] inline T gradient(T given, T value, const Options& o, const Numbers<T>& n) {
  const T grad = o.maximize ? -given : given;
  return o.decays && !o.decoupled ? grad + value * n.weight_decay : grad;
}

template <class T>
[[gnu::always_inline]] inline void adam_block(
    const Block<T>& at, int64_t count, const Options& o, const Numbers<T>& n) {
  T* const __restrict param = at[0];
  T* const __restrict grads = at[1];
  T* const __restrict averages = at[2];
  T* const __restrict squares = at[3];
  T* const __restrict most = at[4];
  for (int64_t i = 0; i < count; ++i) {
    const T before = param[i];
    const T grad = gradient(grads[i], before, o, n);
    const T value = o.decays && o.decoupled ? before * n.kept : before;
    const T average = averages[i] + (grad - averages[i]) * n.one_minus_beta1;
    const T square = squares[i] * n.beta2 + n.one_minus_beta2 * grad * grad;
    T largest = square;
    if (o.amsgrad) most[i] = largest = square > most[i] || square != square ? square : most[i];
    averages[i] = average;
    squares[i] = square;
    param[i] = value - n.step_size * average / (std::sqrt(largest) / n.root + n.eps);
  }
}

template <class T>
[[gnu::always_inline]] inline void sgd_block(const Block<T>& at, int64_t count, const Options& o, const Numbers<T>& n) {
  T* __restrict param = at[0], * __restrict grads = at[1], * __restrict buffers = at[2];
  for (int64_t i = 0; i < count; ++i) {
    T grad = gradient(grads[i], param[i], o, n);
    if (o.moves) {
      const T buffer = o.first_step ? grad : buffers[i] * n.momentum + grad * n.one_minus_dampening;
      buffers[i] = buffer;
      grad = o.nesterov ? grad + buffer * n.momentum : buffer;
    }
    param[i] = param[i] - grad * n.lr;
  }
}

template <class T>
[[gnu::always_inline]] inline void adagrad_block(
    const Block<T>& at, int64_t count, const Options& o, const Numbers<T>& n) {
  T* __restrict param = at[0], * __restrict grads = at[1], * __restrict sums = at[2];
  for (int64_t i = 0; i < count; ++i) {
    const T grad = gradient(grads[i], param[i], o, n);
    const T total = sums[i] + grad * grad;
    sums[i] = total;
    param[i] = param[i] - n.step_size * grad / (std::sqrt(total) + n.eps);
  }
}

// The common options are constants in a loop of their own, which then has no branches and is vectorised.
#define DEFINE_BLOCK(NAME, TYPE)                                                                                 \
  FOR_EACH_PROCESSOR void NAME(const Block<TYPE>& at, int64_t count, const Options& o, const Numbers<TYPE>& n) { \
    constexpr Options kPlain{}, kDecays{.decays = true}, kDecoupled{.decoupled = true, .decays = true};          \
    constexpr Options kMoves{.moves = true}, kBoth{.decays = true, .moves = true};                               \
    if (o.amsgrad || o.maximize || o.nesterov || o.first_step) return NAME##_block<TYPE>(at, count, o, n);       \
    if (o.moves && o.decays) return NAME##_block<TYPE>(at, count, kBoth, n);                                     \
    if (o.moves) return NAME##_block<TYPE>(at, count, kMoves, n);                                                \
    if (!o.decays) return NAME##_block<TYPE>(at, count, kPlain, n);                                              \
    if (o.decoupled) return NAME##_block<TYPE>(at, count, kDecoupled, n);                                        \
    NAME##_block<TYPE>(at, count, kDecays, n);                                                                   \
  }
DEFINE_BLOCK(adam, float)
DEFINE_BLOCK(adam, double)
DEFINE_BLOCK(sgd, float)
DEFINE_BLOCK(sgd, double)
DEFINE_BLOCK(adagrad, float)
DEFINE_BLOCK(adagrad, double)
#undef DEFINE_BLOCK

// Calls `use` with the elements of a tensor from `begin` on, in its own dtype.
template <class Use>
void with_elements(const Tensor& t, int64_t begin, const Use& use) {
  AT_DISPATCH_FLOATING_TYPES_AND2(at::kBFloat16, at::kHalf, t.scalar_type(), "fused optimizer", [&] {
    use(t.mutable_data_ptr<scalar_t>() + begin);
  });
}

// All elements of one parameter, in an order that its tensors have in common.
template <class T, class Update>
void update_all(std::array<Tensor, kMostTensors> given, const Options& o, const Numbers<T>& n, Update update) {
  auto tensors = given;
  for (size_t k = 0; k < kMostTensors; ++k) {
    if (!given[k].defined()) continue;
    TORCH_CHECK(
        given[k].sizes() == given[0].sizes(), "fused optimizer: a parameter of ", given[0].sizes(),
        " has a gradient or state of ", given[k].sizes());
    if (!given[0].is_non_overlapping_and_dense() || given[k].strides() != given[0].strides()) {
      for (size_t j = 0; j < kMostTensors; ++j)
        if (given[j].defined()) tensors[j] = given[j].contiguous();
      break;
    }
  }
  constexpr auto kDtype = c10::CppTypeToScalarType<T>::value;
  at::parallel_for(0, given[0].numel(), kGrain, [&](int64_t begin, int64_t end) {
    std::array<std::array<T, kBlock>, kMostTensors> converted;
    for (int64_t at = begin; at < end; at += kBlock) {
      const int64_t count = std::min(kBlock, end - at);
      Block<T> block{};
      for (size_t k = 0; k < kMostTensors; ++k) {
        if (!tensors[k].defined()) continue;
        if (tensors[k].scalar_type() == kDtype) {
          block[k] = tensors[k].template mutable_data_ptr<T>() + at;
        } else {
          block[k] = converted[k].data();
          with_elements(tensors[k], at, [&](auto* from) { std::copy_n(from, count, block[k]); });
        }
      }
      if (o.scales)
        for (int64_t i = 0; i < count; ++i) block[1][i] /= n.grad_scale;
      update(block, count, o, n);
      for (size_t k = 0; k < kMostTensors; ++k)
        if (tensors[k].defined() && tensors[k].scalar_type() != kDtype && (k != 1 || o.scales))
          with_elements(tensors[k], at, [&](auto* to) { std::copy_n(block[k], count, to); });
    }
  });
  for (size_t k = 0; k < kMostTensors; ++k)
    if (given[k].defined() && !tensors[k].is_same(given[k])) given[k].copy_(tensors[k]);
}

// beta to the power of a step's number, by squaring: products alone, which a recipe can repeat.
double power(double base, double step) {
  double result = 1;
  for (auto left = static_cast<int64_t>(step); left > 0; left >>= 1, base *= base)
    if (left & 1) result *= base;
  return result;
}

double number(double value) { return value; }
double number(const Tensor& value) { return value.item<double>(); }

Tensor nth(TensorList list, size_t i) { return i < list.size() ? list[i] : Tensor(); }

template <class T>
void scale(Numbers<T>& n, Options& o, const std::optional<Tensor>& grad_scale) {
  o.scales = grad_scale.has_value();
  if (o.scales) n.grad_scale = grad_scale->to(c10::CppTypeToScalarType<T>::value).template item<T>();
}

// Calls `step(parameter, rate, zero)` for each parameter, with a zero of the dtype in which it is computed.
template <class Rate, class Step>
void for_each_param(TensorList params, const Rate& lr, const std::optional<Tensor>& found_inf, Step step) {
  if (found_inf && found_inf->item<double>() == 1) return;
  const double rate = number(lr);
  for (size_t i = 0; i < params.size(); ++i)
    params[i].scalar_type() == at::kDouble ? step(i, rate, double{}) : step(i, rate, float{});
}

template <bool kDecoupled, class Rate>
void fused_adam(
    TensorList params, TensorList grads, TensorList averages, TensorList squares, TensorList most, TensorList steps,
    const Rate& lr, double beta1, double beta2, double weight_decay, double eps, bool amsgrad, bool maximize,
    const std::optional<Tensor>& grad_scale, const std::optional<Tensor>& found_inf) {
  for_each_param(params, lr, found_inf, [&](size_t i, double rate, auto zero) {
    using T = decltype(zero);
    const double step = steps[i].item<double>();
    Options o{.decoupled = kDecoupled, .amsgrad = amsgrad, .maximize = maximize, .decays = weight_decay != 0};
    Numbers<T> n{
        .weight_decay = T(weight_decay),
        .kept = T(1 - rate * weight_decay),
        .eps = T(eps),
        .beta2 = T(beta2),
        .one_minus_beta1 = T(1 - beta1),
        .one_minus_beta2 = T(1 - beta2),
        .step_size = T(1 / (1 - power(beta1, step)) * rate),
        .root = T(std::sqrt(1 - power(beta2, step)))};
    scale(n, o, grad_scale);
    update_all<T>(
        {params[i], grads[i], averages[i], squares[i], amsgrad ? nth(most, i) : Tensor()}, o, n,
        [](auto&... args) { adam(args...); });
  });
}

template <class Rate>
void fused_sgd(
    TensorList params, TensorList grads, TensorList buffers, double weight_decay, double momentum, const Rate& lr,
    double dampening, bool nesterov, bool maximize, bool first_step, const std::optional<Tensor>& grad_scale,
    const std::optional<Tensor>& found_inf) {
  for_each_param(params, lr, found_inf, [&](size_t i, double rate, auto zero) {
    using T = decltype(zero);
    Options o{
        .maximize = maximize,
        .nesterov = nesterov,
        .first_step = first_step,
        .decays = weight_decay != 0,
        .moves = momentum != 0};
    Numbers<T> n{
        .lr = T(rate),
        .weight_decay = T(weight_decay),
        .momentum = T(momentum),
        .one_minus_dampening = T(1 - dampening)};
    scale(n, o, grad_scale);
    update_all<T>(
        {params[i], grads[i], o.moves ? nth(buffers, i) : Tensor(), {}, {}}, o, n, [](auto&... args) { sgd(args...); });
  });
}

template <class Rate>
void fused_adagrad(
    TensorList params, TensorList grads, TensorList sums, TensorList steps, const Rate& lr, double lr_decay,
    double weight_decay, double eps, bool maximize, const std::optional<Tensor>& grad_scale,
    const std::optional<Tensor>& found_inf) {
  for_each_param(params, lr, found_inf, [&](size_t i, double rate, auto zero) {
    using T = decltype(zero);
    const double step = steps[i].item<double>();
    Options o{.maximize = maximize, .decays = weight_decay != 0};
    Numbers<T> n{
        .weight_decay = T(weight_decay), .eps = T(eps), .step_size = T(1 / (1 + (step - 1) * lr_decay) * rate)};
    scale(n, o, grad_scale);
    update_all<T>({params[i], grads[i], sums[i], {}, {}}, o, n, [](auto&... args) { adagrad(args...); });
  });
}

// Adam's step as recipes of many parameters call it: no code is generated for each of them.
void adam_step(
    TensorList params, TensorList grads, TensorList averages, TensorList squares, TensorList steps, const Tensor& lr,
    double beta1, double beta2, double weight_decay, double eps, bool decoupled, bool maximize) {
  auto* step = decoupled ? fused_adam<true, Tensor> : fused_adam<false, Tensor>;
  step(params, grads, averages, squares, {}, steps, lr, beta1, beta2, weight_decay, eps, false, maximize, {}, {});
}

}  // namespace

// They have the names and schemas of PyTorch's operators, and run in their place (Operator).
TORCH_LIBRARY_FRAGMENT(openhpu, m) {
  using namespace at::_ops;
  const auto define = [&](const char* schema, auto kernel) {
    m.def(schema, torch::dispatch(c10::DispatchKey::CPU, kernel));
  };
  define(_fused_adam_::schema_str, TORCH_FN((fused_adam<false, double>)));
  define(_fused_adam__tensor_lr::schema_str, TORCH_FN((fused_adam<false, Tensor>)));
  define(_fused_adamw_::schema_str, TORCH_FN((fused_adam<true, double>)));
  define(_fused_adamw__tensor_lr::schema_str, TORCH_FN((fused_adam<true, Tensor>)));
  define(_fused_sgd_::schema_str, TORCH_FN(fused_sgd<double>));
  define(_fused_sgd__tensor_lr::schema_str, TORCH_FN(fused_sgd<Tensor>));
  define(_fused_adagrad_::schema_str, TORCH_FN(fused_adagrad<double>));
  define(_fused_adagrad__tensor_lr::schema_str, TORCH_FN(fused_adagrad<Tensor>));
  define(kAdamStepSchema, TORCH_FN(adam_step));
}

}  // namespace openhpu
