// Sparse COO tensors: indices and values lie on the device; operators on them run on the host, as a CPU fallback.
#include <ATen/NativeFunctions.h>
#include <ATen/ops/_sparse_coo_tensor_with_dims_and_tensors.h>
#include <ATen/ops/empty.h>
#include <ATen/native/SparseTensorUtils.h>

#include "call/Alias.h"
#include "call/Fallback.h"

namespace openhpu {
namespace {

using at::Tensor;
using at::sparse::get_sparse_impl;

Tensor make_with_tensors(
    int64_t sparse_dim, int64_t dense_dim, c10::IntArrayRef size, const Tensor& indices, const Tensor& values,
    std::optional<at::ScalarType>, std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>,
    std::optional<bool> is_coalesced) {
  // Aliases of the caller's tensors without their history, as PyTorch's own constructor makes them.
  auto shallow = [](const Tensor& t) {
    return Tensor(t.unsafeGetTensorImpl()->shallow_copy_and_detach(t.unsafeGetTensorImpl()->version_counter(), true));
  };
  return make_sparse(sparse_dim, dense_dim, size, shallow(indices), shallow(values), is_coalesced.value_or(false));
}

Tensor make_empty(
    int64_t sparse_dim, int64_t dense_dim, c10::IntArrayRef size, std::optional<at::ScalarType> dtype,
    std::optional<at::Layout>, std::optional<at::Device> device, std::optional<bool>) {
  const auto options = at::TensorOptions().device(c10::device_or_default(device));
  std::vector<int64_t> value_size{0};
  value_size.insert(value_size.end(), size.begin() + sparse_dim, size.end());
  return make_sparse(
      sparse_dim, dense_dim, size, at::empty({sparse_dim, 0}, options.dtype(at::kLong)),
      at::empty(value_size, options.dtype(c10::dtype_or_default(dtype))), false);
}

Tensor empty_sparse(
    c10::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
    std::optional<at::Device> device, std::optional<bool> pin, std::optional<at::MemoryFormat>) {
  return make_empty(static_cast<int64_t>(size.size()), 0, size, dtype, layout, device, pin);
}

// Sparse operands are copied, since operators may replace their parts.
Tensor to_cpu_operand(const Tensor& t) {
  if (!t.is_sparse()) return cpu_alias(t);
  auto* impl = get_sparse_impl(t);
  return at::_sparse_coo_tensor_with_dims_and_tensors(
      impl->sparse_dim(), impl->dense_dim(), t.sizes(), cpu_alias(impl->indices()).clone(),
      cpu_alias(impl->values()).clone(), at::TensorOptions().dtype(t.dtype()).layout(at::kSparse).device(at::kCPU),
      impl->coalesced());
}

void take_over(const Tensor& operand, const Tensor& twin, c10::DeviceIndex index) {
  if (!operand.is_sparse()) return;
  const auto fresh = adopt_result(twin, index);
  auto *to = get_sparse_impl(operand), *from = get_sparse_impl(fresh);
  to->raw_resize_(from->sparse_dim(), from->dense_dim(), fresh.sizes());
  to->set_indices_and_values_unsafe(from->indices(), from->values());
  to->set_coalesced(from->coalesced());
}

void sparse_fallback(const c10::OperatorHandle& op, c10::DispatchKeySet, c10::Stack* stack) {
  run_on_host(op, *stack, {&to_cpu_operand, &adopt_result, &take_over});
}

TORCH_LIBRARY_IMPL(aten, SparseHPU, m) {
  m.impl("_sparse_coo_tensor_with_dims_and_tensors", TORCH_FN(make_with_tensors));
  m.impl("_sparse_coo_tensor_with_dims", TORCH_FN(make_empty));
  m.impl("empty.memory_format", TORCH_FN(empty_sparse));
  m.impl("_indices", TORCH_FN(at::native::_indices_sparse));
  m.impl("_values", TORCH_FN(at::native::_values_sparse));
  m.impl("indices", TORCH_FN(at::native::indices_sparse));
  m.impl("values", TORCH_FN(at::native::values_sparse));
  m.impl("sparse_dim", TORCH_FN(at::native::sparse_dim_sparse));
  m.impl("dense_dim", TORCH_FN(at::native::dense_dim_sparse));
  m.impl("_nnz", TORCH_FN(at::native::_nnz_sparse));
  m.impl("is_coalesced", TORCH_FN(at::native::is_coalesced_sparse));
  m.impl("_coalesced_", TORCH_FN(at::native::_coalesced_sparse_));
}

TORCH_LIBRARY_IMPL(_, SparseHPU, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&sparse_fallback>()); }

// Last, where what has a kernel of its own is known.
[[maybe_unused]] const bool has_sparse_fallbacks = register_where_cpu_has(
    c10::DispatchKey::SparseCPU, c10::DispatchKey::SparseHPU,
    c10::KernelFunction::makeFromBoxedFunction<&sparse_fallback>(), "openhpu sparse fallback");

}  // namespace
}  // namespace openhpu
