#include "call/Alias.h"

#include <ATen/native/SparseTensorUtils.h>

#include "record/Capture.h"
#include "record/Lazy.h"
#include "run/Tensors.h"
#include "torch/CompileOnly.h"
#include "torch/HPUAllocator.h"
#include "torch/HPUDevice.h"

namespace openhpu {

c10::intrusive_ptr<c10::StorageImpl> cpu_storage_over(const c10::StorageImpl& storage) {
  require_memory(storage);
  return host_storage_over(const_cast<void*>(storage.data()), storage.nbytes());
}

at::Tensor alias_over(const c10::TensorImpl& t, c10::intrusive_ptr<c10::StorageImpl> storage, c10::DispatchKey key) {
  auto impl = host_tensor_on(std::move(storage), t.dtype(), t.sizes(), t.strides(), t.storage_offset(), key);
  if (C10_UNLIKELY(t.is_conj())) impl->_set_conj(true);
  if (C10_UNLIKELY(t.is_neg())) impl->_set_neg(true);
  if (C10_UNLIKELY(t.is_wrapped_number())) impl->set_wrapped_number(true);
  return at::Tensor(std::move(impl));
}

at::Tensor cpu_alias(const at::Tensor& t) {
  const auto* impl = t.unsafeGetTensorImpl();
  return alias_over(*impl, cpu_storage_over(*impl->unsafe_storage().unsafeGetStorageImpl()));
}

at::Tensor cpu_alias_to_read(const at::Tensor& t) {
  const auto* impl = t.unsafeGetTensorImpl();
  const auto& storage = *impl->unsafe_storage().unsafeGetStorageImpl();
  require_memory_to_read(storage);
  return alias_over(*impl, host_storage_over(const_cast<void*>(storage.data()), storage.nbytes()));
}

c10::Storage make_hpu_storage(c10::DeviceIndex index, size_t nbytes) {
  device_of(index);  // opened first, if need be: that reads the mode
  auto* capture = current_capture(index);
  if (lazy_mode() || C10_UNLIKELY(capture != nullptr)) {
    // Found out here rather than when the graph runs.
    check_capacity(index, nbytes);
    auto storage = make_pending_storage(normalize_index(index), nbytes);
    if (C10_UNLIKELY(capture != nullptr)) capture->made_here(*memory_of(*storage));
    return c10::Storage(std::move(storage));
  }
  return storage_over(allocate_on(index, nbytes), nbytes);
}

at::Tensor make_hpu_tensor(
    c10::Storage storage, caffe2::TypeMeta dtype, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset) {
  auto impl =
      c10::make_intrusive<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(c10::DispatchKey::HPU), dtype);
  impl->set_sizes_and_strides(sizes, strides, offset);
  return at::Tensor(std::move(impl));
}

c10::DataPtr upload(const c10::Storage& cpu, c10::DeviceIndex index) {
  auto memory = allocate_on(index, cpu.nbytes());
  note_contents(*static_cast<HPUMemory*>(memory.get_context()));
  if (cpu.nbytes() > 0) {
    auto& d = device_of(index);
    release_returned();
    auto copy = [&pool = d.memory(), to = memory.get(), from = cpu]() mutable {
      device::MemoryPool::AccessScope access(pool);
      std::memcpy(to, from.data(), from.nbytes());
      return_to_host(std::move(from));
    };
    const auto kind = device::TraceKind::HostToDevice;
    submit(d, new device::FunctionCommand("adopt result", std::move(copy), /*anywhere=*/true, kind, cpu.nbytes()));
  }
  return memory;
}

c10::Storage upload_storage(const c10::Storage& cpu, c10::DeviceIndex index) {
  return storage_over(upload(cpu, index), cpu.nbytes());
}

at::Tensor make_sparse(
    int64_t sparse_dim, int64_t dense_dim, c10::IntArrayRef size, const at::Tensor& indices, const at::Tensor& values,
    bool coalesced) {
  auto impl =
      c10::make_intrusive<at::SparseTensorImpl>(c10::DispatchKeySet(c10::DispatchKey::SparseHPU), values.dtype());
  impl->resize_(sparse_dim, dense_dim, size);
  impl->set_indices_and_values_unsafe(indices, values);
  impl->set_coalesced(coalesced);
  return at::Tensor(std::move(impl));
}

at::Tensor adopt_result(const at::Tensor& cpu, c10::DeviceIndex index) {
  if (cpu.is_sparse()) {
    auto* impl = at::sparse::get_sparse_impl(cpu);
    return make_sparse(
        impl->sparse_dim(), impl->dense_dim(), cpu.sizes(), adopt_result(impl->indices(), index),
        adopt_result(impl->values(), index), impl->coalesced());
  }
  TORCH_CHECK_NOT_IMPLEMENTED(
      cpu.layout() == c10::kStrided, "A result of layout ", cpu.layout(), " can't be held on an hpu device.");
  auto t = make_hpu_tensor(
      upload_storage(cpu.storage(), index), cpu.dtype(), cpu.sizes(), cpu.strides(), cpu.storage_offset());
  if (cpu.is_conj()) t.unsafeGetTensorImpl()->_set_conj(true);
  if (cpu.is_neg()) t.unsafeGetTensorImpl()->_set_neg(true);
  return t;
}

}  // namespace openhpu
