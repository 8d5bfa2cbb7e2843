// Strided nested tensors. PyTorch has kernels for most of their operators that are made of operators on the components,
// and serve any device; those that it registers for the CPU alone stand below. The rest reads its operands on the host,
// as a CPU fallback.
#include <ATen/NativeFunctions.h>
#include <ATen/NestedTensorImpl.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>

#include "call/Alias.h"
#include "call/Fallback.h"
#include "observe/KernelReports.h"

namespace openhpu {
namespace {

using at::Tensor;

Tensor make_nested(const Tensor& like, const Tensor& buffer) {
  const auto* impl = at::native::get_nested_tensor_impl(like);
  return at::detail::make_tensor<at::native::NestedTensorImpl>(
      buffer, impl->get_nested_sizes(), impl->get_nested_strides(), impl->get_storage_offsets());
}

// The same components as a CPU tensor, or the other way round; `move` is for what holds them.
template <class Move>
Tensor moved(const Tensor& t, Move&& move) {
  if (!t.is_nested()) return move(t);
  return make_nested(t, move(at::native::get_nested_tensor_impl(t)->get_unsafe_storage_as_tensor()));
}

// PyTorch's own asks for a kernel of the device's, which CPU tensors alone have.
std::tuple<Tensor, Tensor, Tensor> layer_norm(
    const Tensor& input, c10::IntArrayRef shape, const std::optional<Tensor>& weight, const std::optional<Tensor>& bias,
    double eps) {
  TORCH_CHECK(
      input.is_contiguous() && shape.size() == 1 && at::native::get_nested_tensor_impl(input)->opt_size(-1) == shape[0],
      "native_layer_norm: expected a contiguous nested tensor whose last dimension is the normalized one, of size ",
      shape);
  const auto rows = at::native::get_nested_tensor_impl(input)->get_unsafe_storage_as_tensor().view({-1, shape[0]});
  auto [out, mean, rstd] = at::native_layer_norm(rows, shape, weight, bias, eps);
  return {make_nested(input, out.view(-1)), std::move(mean), std::move(rstd)};
}

std::tuple<Tensor, Tensor, Tensor> layer_norm_backward(
    const Tensor& grad, const Tensor& input, c10::IntArrayRef shape, const Tensor& mean, const Tensor& rstd,
    const std::optional<Tensor>& weight, const std::optional<Tensor>& bias, std::array<bool, 3> wanted) {
  auto rows = [&](const Tensor& t) {
    const auto whole = t.is_contiguous() ? t : t.contiguous();
    return at::native::get_nested_tensor_impl(whole)->get_unsafe_storage_as_tensor().view({-1, shape[0]});
  };
  auto [to_input, to_weight, to_bias] =
      at::native_layer_norm_backward(rows(grad), rows(input), shape, mean, rstd, weight, bias, wanted);
  return {wanted[0] ? make_nested(input, to_input.view(-1)) : Tensor(), std::move(to_weight), std::move(to_bias)};
}

void nested_fallback(const c10::OperatorHandle& op, c10::DispatchKeySet, c10::Stack* stack) {
  run_on_host(
      op, *stack,
      {[](const Tensor& t) { return moved(t, [](const Tensor& part) { return cpu_alias(part); }); },
       [](const Tensor& t, c10::DeviceIndex index) {
         return moved(t, [&](const Tensor& part) { return adopt_result(part, index); });
       }});
}

TORCH_LIBRARY_IMPL(aten, NestedTensorHPU, m) {
  m.impl("_fused_sdp_choice", TORCH_FN(at::native::_fused_sdp_choice_cpp));
  m.impl("_nested_tensor_storage_offsets", TORCH_FN(at::native::_nested_tensor_storage_offsets));
  m.impl("_nested_tensor_softmax_with_shape", TORCH_FN(at::native::NestedTensor_softmax_dropout));
  m.impl("bmm", TORCH_FN(at::native::bmm_nested));
  m.impl("to_padded_tensor", TORCH_FN(at::native::NestedTensor_to_padded_tensor_generic));
  m.impl("value_selecting_reduction_backward", TORCH_FN(at::native::value_selecting_reduction_backward_nested_symint));
}

// Of dense operands, with a nested result.
TORCH_LIBRARY_IMPL(aten, HPU, m) {
  m.impl("_nested_from_padded", TORCH_FN(at::native::nested_from_padded_generic));
  m.impl("_nested_view_from_buffer", TORCH_FN(at::native::_nested_view_from_buffer));
  m.impl("_nested_tensor_from_mask", TORCH_FN(at::native::NestedTensor_nested_tensor_from_mask));
}

TORCH_LIBRARY_IMPL(aten, NestedTensorHPU, m) {
  const NoWarnings quiet;  // in place of PyTorch's, of which it would warn
  m.impl("native_layer_norm", TORCH_FN(layer_norm));
  m.impl("native_layer_norm_backward", TORCH_FN(layer_norm_backward));
}

// Last, where what has a kernel of its own is known.
[[maybe_unused]] const bool has_nested_fallbacks = register_where_cpu_has(
    c10::DispatchKey::NestedTensorCPU, c10::DispatchKey::NestedTensorHPU,
    c10::KernelFunction::makeFromBoxedFunction<&nested_fallback>(), "openhpu nested fallback");

}  // namespace

}  // namespace openhpu
