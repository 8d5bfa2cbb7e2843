#include "call/StructuredKernels.h"

#include <ATen/MetaFunctions.h>
#include <ATen/core/Tensor.h>

#include <unordered_map>

namespace openhpu {
namespace {

template <class Function>
c10::KernelFunction kernel(Function function) {
  return c10::KernelFunction::makeFromUnboxedFunction(function);
}

using Tensor = const at::Tensor&;
// The overload that is no `out=` variant.
constexpr at::Tensor (*div_tensors)(Tensor, Tensor) = &at::meta::div;
constexpr at::Tensor (*pow_scalar)(Tensor, const at::Scalar&) = &at::meta::pow;

}  // namespace

const c10::KernelFunction* structured_kernel_of(const std::string& name) {
  static const auto* table = new std::unordered_map<std::string, c10::KernelFunction>{
      {"aten::mm", kernel(TORCH_FN(at::meta::mm))},
      {"aten::addmm", kernel(TORCH_FN(at::meta::addmm))},
      {"aten::bmm", kernel(TORCH_FN(at::meta::bmm))},
      {"aten::baddbmm", kernel(TORCH_FN(at::meta::baddbmm))},
      {"aten::add.Tensor", kernel(TORCH_FN(at::meta::add))},
      {"aten::add_.Tensor", kernel(TORCH_FN(at::meta::add_))},
      {"aten::sub.Tensor", kernel(TORCH_FN(at::meta::sub))},
      {"aten::mul.Tensor", kernel(TORCH_FN(at::meta::mul))},
      {"aten::mul_.Tensor", kernel(TORCH_FN(at::meta::mul_))},
      {"aten::maximum", kernel(TORCH_FN(at::meta::maximum))},
      {"aten::pow.Tensor_Scalar", kernel(TORCH_FN(pow_scalar))},
      {"aten::cat", kernel(TORCH_FN(at::meta::cat))},
      {"aten::neg", kernel(TORCH_FN(at::meta::neg))},
      {"aten::cos", kernel(TORCH_FN(at::meta::cos))},
      {"aten::sin", kernel(TORCH_FN(at::meta::sin))},
      {"aten::div.Tensor", kernel(TORCH_FN(div_tensors))},
      {"aten::exp", kernel(TORCH_FN(at::meta::exp))},
      {"aten::log", kernel(TORCH_FN(at::meta::log))},
      {"aten::sqrt", kernel(TORCH_FN(at::meta::sqrt))},
      {"aten::rsqrt", kernel(TORCH_FN(at::meta::rsqrt))},
      {"aten::sigmoid", kernel(TORCH_FN(at::meta::sigmoid))},
      {"aten::sigmoid_backward", kernel(TORCH_FN(at::meta::sigmoid_backward))},
      {"aten::tanh", kernel(TORCH_FN(at::meta::tanh))},
      {"aten::tanh_backward", kernel(TORCH_FN(at::meta::tanh_backward))},
      {"aten::gelu", kernel(TORCH_FN(at::meta::gelu))},
      {"aten::gelu_backward", kernel(TORCH_FN(at::meta::gelu_backward))},
      {"aten::silu", kernel(TORCH_FN(at::meta::silu))},
      {"aten::threshold_backward", kernel(TORCH_FN(at::meta::threshold_backward))},
      {"aten::_softmax", kernel(TORCH_FN(at::meta::_softmax))},
      {"aten::_softmax_backward_data", kernel(TORCH_FN(at::meta::_softmax_backward_data))},
      {"aten::_log_softmax", kernel(TORCH_FN(at::meta::_log_softmax))},
      {"aten::_log_softmax_backward_data", kernel(TORCH_FN(at::meta::_log_softmax_backward_data))},
      {"aten::sum.dim_IntList", kernel(TORCH_FN(at::meta::sum))},
      {"aten::mean.dim", kernel(TORCH_FN(at::meta::mean))},
  };
  const auto it = table->find(name);
  return it == table->end() ? nullptr : &it->second;
}

}  // namespace openhpu
