// Strided nested tensors. PyTorch has kernels for most of their operators that are made of operators on the components,
// and serve any device; those that it registers for the CPU alone stand below. The rest reads its operands on the host, as
// a CPU fallback.
#include "kernels/Nested.h"

#include <ATen/NativeFunctions.h>
#include <ATen/NestedTensorImpl.h>
#include <ATen/ops/native_layer_norm.h>
#include <ATen/ops/native_layer_norm_backward.h>

#include "call/Alias.h"
#include "call/Fallback.h"
#include "run/Eager.h"
#include "torch/HPUDevice.h"

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
      "native_layer_norm: expected a contiguous nested tensor whose last dimension is the normalized one, of size ", shape);
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

void run_on_host(const c10::OperatorHandle& op, c10::DispatchKeySet, c10::Stack* stack) {
  const size_t n = op.schema().arguments().size();
  auto* args = stack->data() + stack->size() - n;
  std::vector<std::pair<Tensor, Tensor>> twins;  // operand, its CPU twin
  c10::DeviceIndex index = current_device();
  int dtype = -1;
  for (size_t i = 0; i < n; ++i) {
    if (!args[i].isTensor() || !args[i].toTensor().defined() || args[i].toTensor().device().type() != c10::kHPU) continue;
    index = args[i].toTensor().device().index();
    if (dtype < 0) dtype = static_cast<int>(args[i].toTensor().scalar_type());
  }
  note_fallback(c10::toString(op.operator_name()), dtype);
  synchronize(index);
  device::MemoryPool::AccessScope access(device_of(index).memory());
  auto twin = [&](const Tensor& t) {
    if (!t.defined() || t.device().type() != c10::kHPU) return t;
    twins.emplace_back(t, moved(t, [](const Tensor& part) { return cpu_alias(part); }));
    return twins.back().second;
  };
  const c10::Stack cpu = call_on_twins(op, args, twin);
  stack->resize(stack->size() - n);
  for (const auto& v : cpu) {
    if (!v.isTensor() || !v.toTensor().defined()) {
      stack->emplace_back(v);
      continue;
    }
    const auto& result = v.toTensor();
    const Tensor* same = nullptr;
    for (auto& [operand, copy] : twins)
      if (copy.is_same(result)) same = &operand;
    stack->emplace_back(same ? *same : moved(result, [&](const Tensor& part) { return adopt_result(part, index); }));
  }
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

}  // namespace

void register_nested_kernels() {
  {
    // In place of PyTorch's, of which it would warn.
    struct Silent final : c10::WarningHandler {
      void process(const c10::Warning&) override {}
    } silent;
    c10::WarningUtils::WarningHandlerGuard quiet(&silent);
    static auto* own = new torch::Library(
        torch::Library::IMPL, "aten", c10::DispatchKey::NestedTensorHPU, __FILE__, __LINE__);
    own->impl("native_layer_norm", TORCH_FN(layer_norm));
    own->impl("native_layer_norm_backward", TORCH_FN(layer_norm_backward));
  }
  // One by one, as for sparse tensors: an operator with a composite kernel would not reach a fallback of the key.
  auto& dispatcher = c10::Dispatcher::singleton();
  static auto* handles = new std::vector<c10::RegistrationHandleRAII>();
  for (const auto& name : dispatcher.getAllOpNames()) {
    auto op = dispatcher.findSchema(name);
    if (!op || !op->hasKernelForDispatchKey(c10::DispatchKey::NestedTensorCPU) ||
        op->hasKernelForDispatchKey(c10::DispatchKey::NestedTensorHPU))
      continue;
    handles->push_back(dispatcher.registerImpl(
        name, c10::DispatchKey::NestedTensorHPU, c10::KernelFunction::makeFromBoxedFunction<&run_on_host>(),
        std::nullopt, nullptr, "openhpu nested fallback"));
  }
}

}  // namespace openhpu
