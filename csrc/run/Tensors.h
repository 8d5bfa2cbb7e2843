#pragma once

#include <ATen/core/stack.h>

namespace openhpu {

// A CPU storage over memory that another object frees.
inline c10::intrusive_ptr<c10::StorageImpl> host_storage_over(void* data, size_t nbytes) {
  return c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), nbytes, c10::DataPtr(data, c10::Device(c10::kCPU)), nullptr,
      /*resizable=*/false);
}

// A CPU tensor on such a storage, below autograd, or one of another device's.
inline c10::intrusive_ptr<c10::TensorImpl> host_tensor_on(
    c10::Storage storage, caffe2::TypeMeta dtype, c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset,
    c10::DispatchKey key = c10::DispatchKey::CPU) {
  auto impl =
      c10::make_intrusive<c10::TensorImpl>(c10::TensorImpl::VIEW, std::move(storage), c10::DispatchKeySet(key), dtype);
  impl->set_sizes_and_strides(sizes, strides, offset);
  return impl;
}

// Visits the tensors of a value, or of a list of values, lists included, in order.
template <class Visit>
void for_each_tensor(const c10::IValue& value, Visit&& visit) {
  if (value.isTensor()) {
    visit(value.toTensor());
  } else if (value.isList()) {
    for (const auto& element : value.toListRef()) for_each_tensor(element, visit);
  }
}
template <class Visit>
void for_each_tensor(const c10::Stack& values, Visit&& visit) {
  for (const auto& value : values) for_each_tensor(value, visit);
}

// The value with `map(tensor)` in the place of each of its tensors.
template <class Map>
c10::IValue map_tensors(const c10::IValue& value, Map&& map) {
  if (value.isTensor()) return map(value.toTensor());
  if (!value.isList()) return value;
  // By its elements: TorchScript's interpreter makes lists whose type says more than PyTorch's own (a tensor's dtype).
  const auto elements = value.toListRef();
  if (std::none_of(elements.begin(), elements.end(), [](const auto& e) { return e.isTensor(); })) return value;
  const auto map_list = [&](auto list) {
    for (const auto& e : elements) {
      if (e.isNone())
        list.push_back({});
      else
        list.push_back(map(e.toTensor()));
    }
    return c10::IValue(std::move(list));
  };
  if (value.toList().elementType()->kind() != c10::TypeKind::OptionalType) return map_list(c10::List<at::Tensor>());
  return map_list(c10::List<std::optional<at::Tensor>>());
}

// A tensor whose copies are copies of its bytes. PyTorch's CPU kernels change every byte of a bool that is not 0 or 1
// to 1. Here bytes that a script views as bool keep their value.
inline at::Tensor as_bytes(const at::Tensor& t) { return t.scalar_type() == at::kBool ? t.view(at::kByte) : t; }

// dst.copy_(src), where equal dtypes are copied byte by byte.
inline void exact_copy(const at::Tensor& dst, const at::Tensor& src) {
  if (dst.scalar_type() == at::kBool && src.scalar_type() == at::kBool)
    as_bytes(dst).copy_(as_bytes(src));
  else
    dst.copy_(src);
}

// Bytes of the largest tensor, for the thread policy.
inline size_t largest_tensor(const c10::Stack& values) {
  size_t largest = 0;
  for_each_tensor(values, [&](const at::Tensor& t) {
    if (t.defined()) largest = std::max(largest, static_cast<size_t>(t.unsafeGetTensorImpl()->numel()) * t.itemsize());
  });
  return largest;
}

}  // namespace openhpu
