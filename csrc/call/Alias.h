#pragma once

#include <ATen/core/Tensor.h>

namespace openhpu {

// A CPU tensor over the memory of an hpu tensor, with the same sizes, strides and conjugate / negative bits. It is an
// inference tensor (no version counter, no autograd keys): kernels see only memory.
at::Tensor cpu_alias(const at::Tensor& t);
// For who only reads it, now.
at::Tensor cpu_alias_to_read(const at::Tensor& t);
// The same over a storage that is there; with the key Meta one of the meta device, which has no memory.
at::Tensor alias_over(
    const c10::TensorImpl& t, c10::intrusive_ptr<c10::StorageImpl> storage,
    c10::DispatchKey key = c10::DispatchKey::CPU);

// A CPU storage over an hpu tensor's memory.
c10::intrusive_ptr<c10::StorageImpl> cpu_storage_over(const c10::StorageImpl& storage);

// An hpu tensor on `storage` with the given metadata, below autograd.
at::Tensor make_hpu_tensor(
    c10::Storage storage, caffe2::TypeMeta dtype, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset);
c10::Storage make_hpu_storage(c10::DeviceIndex index, size_t nbytes);

// Device memory with the contents of a CPU storage. The copy is queued: other threads' commands that are still queued
// may use the block that the new memory was given.
c10::DataPtr upload(const c10::Storage& cpu, c10::DeviceIndex index);
c10::Storage upload_storage(const c10::Storage& cpu, c10::DeviceIndex index);

// A result of a CPU operator, dense or sparse, as an hpu tensor.
at::Tensor adopt_result(const at::Tensor& cpu, c10::DeviceIndex index);

// A sparse COO hpu tensor over indices and values on the device.
at::Tensor make_sparse(
    int64_t sparse_dim, int64_t dense_dim, c10::IntArrayRef size, const at::Tensor& indices, const at::Tensor& values,
    bool coalesced);

}  // namespace openhpu
