// Sparse COO tensors whose indices and values lie on the device.
#include "ops/Sparse.h"

#include <ATen/SparseTensorImpl.h>
#include <ATen/ops/_sparse_coo_tensor_with_dims_and_tensors.h>

#include "ops/Alias.h"

namespace openhpu {

at::Tensor sparse_to_hpu_now(const at::Tensor& cpu, c10::DeviceIndex index) {
  auto indices = to_hpu_now(cpu._indices(), index);
  auto values = to_hpu_now(cpu._values(), index);
  auto impl = c10::make_intrusive<at::SparseTensorImpl>(
      c10::DispatchKeySet(c10::DispatchKey::SparseHPU), cpu.dtype());
  impl->resize_(cpu.sparse_dim(), cpu.dense_dim(), cpu.sizes());
  impl->set_indices_and_values_unsafe(indices, values);
  impl->set_coalesced(cpu.is_coalesced());
  return at::Tensor(std::move(impl));
}

}  // namespace openhpu
