// Sparse COO tensors: indices and values lie on the device; operators on them run on the host, as a CPU fallback.
#include "kernels/Sparse.h"

#include <ATen/ops/_sparse_coo_tensor_with_dims_and_tensors.h>
#include <ATen/ops/empty.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/native/SparseTensorUtils.h>

#include "call/Alias.h"
#include "call/Fallback.h"
#include "run/Eager.h"
#include "torch/HPUDevice.h"

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

Tensor raw_indices(const Tensor& self) { return get_sparse_impl(self)->indices(); }
Tensor raw_values(const Tensor& self) { return get_sparse_impl(self)->values(); }
Tensor indices(const Tensor& self) {
  TORCH_CHECK(self.is_coalesced(), "Cannot get indices on an uncoalesced tensor, please call .coalesce() first");
  return get_sparse_impl(self)->indices().alias();
}
Tensor values(const Tensor& self) {
  TORCH_CHECK(self.is_coalesced(), "Cannot get values on an uncoalesced tensor, please call .coalesce() first");
  return get_sparse_impl(self)->values().alias();
}
int64_t sparse_dim(const Tensor& self) { return get_sparse_impl(self)->sparse_dim(); }
int64_t dense_dim(const Tensor& self) { return get_sparse_impl(self)->dense_dim(); }
int64_t nnz(const Tensor& self) { return get_sparse_impl(self)->nnz(); }
bool is_coalesced(const Tensor& self) { return get_sparse_impl(self)->coalesced(); }
Tensor& set_coalesced(Tensor& self, bool coalesced) {
  get_sparse_impl(self)->set_coalesced(coalesced);
  return self;
}

// The CPU twin of an operand. Sparse operands are copied, since operators may replace their parts.
Tensor to_cpu_operand(const Tensor& t) {
  if (!t.defined() || t.device().type() != c10::kHPU) return t;
  if (!t.is_sparse()) return cpu_alias(t);
  auto* impl = get_sparse_impl(t);
  return at::_sparse_coo_tensor_with_dims_and_tensors(
      impl->sparse_dim(), impl->dense_dim(), t.sizes(), cpu_alias(impl->indices()).clone(),
      cpu_alias(impl->values()).clone(), at::TensorOptions().dtype(t.dtype()).layout(at::kSparse).device(at::kCPU),
      impl->coalesced());
}

void sparse_fallback(const c10::OperatorHandle& op, c10::DispatchKeySet, c10::Stack* stack) {
  const size_t n = op.schema().arguments().size();
  auto* args = stack->data() + stack->size() - n;
  std::vector<std::pair<Tensor, Tensor>> twins;  // operand, its CPU twin
  c10::DeviceIndex index = current_device();
  int dtype = -1;
  auto twin = [&](const Tensor& t) {
    if (t.defined() && t.device().type() == c10::kHPU) {
      index = t.device().index();
      if (dtype < 0) dtype = static_cast<int>(t.scalar_type());
    }
    twins.emplace_back(t, to_cpu_operand(t));
    return twins.back().second;
  };
  note_fallback(c10::toString(op.operator_name()), dtype);
  synchronize(index);
  auto& d = device_of(index);
  device::MemoryPool::AccessScope access(d.memory());
  const c10::Stack cpu = call_on_twins(op, args, twin);
  for (size_t i = 0; i < n; ++i) {
    const auto& alias = op.schema().arguments()[i].alias_info();
    if (!alias || !alias->isWrite() || !args[i].isTensor() || !args[i].toTensor().is_sparse()) continue;
    for (auto& [operand, copy] : twins) {
      if (!operand.is_same(args[i].toTensor())) continue;
      auto fresh = adopt_sparse_result(copy, index);
      auto* to = get_sparse_impl(operand);
      auto* from = get_sparse_impl(fresh);
      to->raw_resize_(from->sparse_dim(), from->dense_dim(), fresh.sizes());
      to->set_indices_and_values_unsafe(from->indices(), from->values());
      to->set_coalesced(from->coalesced());
    }
  }
  stack->resize(stack->size() - n);
  for (const auto& v : cpu) {
    if (!v.isTensor()) {
      stack->emplace_back(v);
      continue;
    }
    const auto& result = v.toTensor();
    const Tensor* same = nullptr;
    for (auto& [operand, copy] : twins)
      if (result.defined() && copy.is_same(result)) same = &operand;
    stack->emplace_back(same ? *same : result.defined() ? adopt_result(result, index) : result);
  }
}

}  // namespace

void register_sparse_kernels() {
  // An operator with a composite kernel would not reach the fallback of the key, so those that PyTorch implements for
  // sparse CPU tensors are registered one by one.
  auto& dispatcher = c10::Dispatcher::singleton();
  static auto* handles = new std::vector<c10::RegistrationHandleRAII>();
  for (const auto& name : dispatcher.getAllOpNames()) {
    auto op = dispatcher.findSchema(name);
    if (!op || !op->hasKernelForDispatchKey(c10::DispatchKey::SparseCPU) ||
        op->hasKernelForDispatchKey(c10::DispatchKey::SparseHPU))
      continue;
    handles->push_back(dispatcher.registerImpl(
        name, c10::DispatchKey::SparseHPU, c10::KernelFunction::makeFromBoxedFunction<&sparse_fallback>(),
        std::nullopt, nullptr, "openhpu sparse fallback"));
  }
}

TORCH_LIBRARY_IMPL(aten, SparseHPU, m) {
  m.impl("_sparse_coo_tensor_with_dims_and_tensors", TORCH_FN(make_with_tensors));
  m.impl("_sparse_coo_tensor_with_dims", TORCH_FN(make_empty));
  m.impl("empty.memory_format", TORCH_FN(empty_sparse));
  m.impl("_indices", TORCH_FN(raw_indices));
  m.impl("_values", TORCH_FN(raw_values));
  m.impl("indices", TORCH_FN(indices));
  m.impl("values", TORCH_FN(values));
  m.impl("sparse_dim", TORCH_FN(sparse_dim));
  m.impl("dense_dim", TORCH_FN(dense_dim));
  m.impl("_nnz", TORCH_FN(nnz));
  m.impl("is_coalesced", TORCH_FN(is_coalesced));
  m.impl("_coalesced_", TORCH_FN(set_coalesced));
}

TORCH_LIBRARY_IMPL(_, SparseHPU, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&sparse_fallback>()); }

}  // namespace openhpu
