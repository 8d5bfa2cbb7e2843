// Factories and resizing: where hpu tensors and their memory come from.
#include <ATen/Context.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/set_native.h>

#include "call/Alias.h"
#include "observe/site.h"
#include "record/Capture.h"
#include "torch/HPUAllocator.h"
#include "torch/HPUDevice.h"

namespace openhpu {
namespace {

c10::DeviceIndex index_of(
    std::optional<at::Layout> layout, std::optional<at::Device> device, std::optional<bool> pin_memory) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      c10::layout_or_default(layout) == c10::kStrided, "empty on hpu makes dense tensors, not layout ",
      c10::layout_or_default(layout));
  TORCH_CHECK(!c10::pinned_memory_or_default(pin_memory), "Only dense CPU tensors can be pinned");
  const auto d = c10::device_or_default(device);
  TORCH_CHECK(d.type() == c10::kHPU, "Expected an hpu device, got ", d);
  return normalize_index(d.index());
}

bool fills_new_memory() {
  const auto& context = at::globalContext();
  return C10_UNLIKELY(context.deterministicAlgorithms() && context.deterministicFillUninitializedMemory());
}

at::Tensor fill_if_deterministic(at::Tensor t) {
  if (fills_new_memory()) at::native::fill_empty_deterministic_(t);
  return t;
}

at::Tensor empty(
    c10::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
    std::optional<at::Device> device, std::optional<bool> pin_memory, std::optional<at::MemoryFormat> format) {
  const auto index = index_of(layout, device, pin_memory);
  const auto type = c10::scalarTypeToTypeMeta(c10::dtype_or_default(dtype));
  at::detail::check_size_nonnegative(size);
  const size_t nbytes = at::detail::computeStorageNbytesContiguous(size, type.itemsize());
  auto impl = c10::make_intrusive<c10::TensorImpl>(
      make_hpu_storage(index, nbytes), c10::DispatchKeySet(c10::DispatchKey::HPU), type);
  if (size.size() != 1 || size[0] != 0) impl->generic_set_sizes_contiguous(size);
  if (format.has_value() && *format != c10::MemoryFormat::Contiguous) impl->empty_tensor_restride(*format);
  return fill_if_deterministic(at::Tensor(std::move(impl)));
}

at::Tensor empty_strided(
    c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<at::ScalarType> dtype,
    std::optional<at::Layout> layout, std::optional<at::Device> device, std::optional<bool> pin_memory) {
  const auto index = index_of(layout, device, pin_memory);
  const auto type = c10::scalarTypeToTypeMeta(c10::dtype_or_default(dtype));
  at::detail::check_size_nonnegative(size);
  TORCH_CHECK(
      size.size() == stride.size(), "dimensionality of sizes (", size.size(),
      ") must match dimensionality of strides (", stride.size(), ")");
  const size_t nbytes = at::detail::computeStorageNbytes(size, stride, type.itemsize());
  return fill_if_deterministic(make_hpu_tensor(make_hpu_storage(index, nbytes), type, size, stride, 0));
}

at::Tensor efficient_zero_tensor(
    c10::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
    std::optional<at::Device> device, std::optional<bool> pin_memory) {
  // A tensor of zeros without memory; the ZeroTensor key materialises it where a kernel needs values.
  static auto* allocators = [] {
    auto* all = new std::vector<at::native::ZeroTensorAllocator>();
    for (int i = 0; i < kMaxDevices; ++i) all->emplace_back(c10::Device(c10::kHPU, static_cast<c10::DeviceIndex>(i)));
    return all;
  }();
  return at::Tensor(
      at::detail::empty_generic(
          size, &(*allocators)[index_of(layout, device, pin_memory)],
          c10::DispatchKeySet(c10::DispatchKey::HPU) | c10::DispatchKeySet(c10::DispatchKey::ZeroTensor),
          c10::dtype_or_default(dtype), std::nullopt));
}

// The contents that fit are kept, copied in queue order.
void resize_storage(c10::StorageImpl& storage, size_t nbytes) {
  if (storage.nbytes() == nbytes) return;
  TORCH_CHECK(storage.resizable(), "Trying to resize storage that is not resizable");
  const auto index = storage.device().index();
  const size_t kept = std::min(nbytes, storage.nbytes());
  if (auto* capture = current_capture(index)) {
    if (kept > 0) refuse_in_capture("aten::resize_", kResizeRemedy);
    make_pending(storage, index, nbytes);  // new to the graph, as a new tensor's
    capture->made_here(*memory_of(storage));
    return;
  }
  if (kept > 0) require_memory(storage);
  auto memory = allocate_on(index, nbytes);
  if (kept > 0) copy_in_order(device_of(index), "aten::resize_", memory.get(), storage.data(), kept, current_site());
  replace_memory(storage, std::move(memory), nbytes);
}

// Makes a tensor's storage at least `nbytes` large.
void grow_storage(const at::Tensor& self, size_t nbytes) {
  if (self.unsafeGetTensorImpl()->numel() == 0 && nbytes == 0) return;
  auto& storage = *self.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  if (nbytes > storage.nbytes()) resize_storage(storage, nbytes);
}

const at::Tensor& resize_(const at::Tensor& self, c10::IntArrayRef size, std::optional<at::MemoryFormat> format) {
  const auto old_bytes = self.storage().nbytes();
  auto* impl = self.unsafeGetTensorImpl();
  if (impl->sizes() != size) {
    at::detail::check_size_nonnegative(size);
    const size_t nbytes =
        at::detail::computeStorageNbytesContiguous(size, impl->dtype().itemsize(), impl->storage_offset());
    grow_storage(self, nbytes);
    impl->generic_set_sizes_contiguous(size);
  }
  if (format.has_value()) {
    TORCH_CHECK(*format != at::MemoryFormat::Preserve, "Unsupported memory format", *format);
    impl->empty_tensor_restride(*format);
  }
  if (fills_new_memory()) at::native::fill_resize_deterministic_(self, static_cast<int64_t>(old_bytes));
  return self;
}

const at::Tensor& resize_output(const at::Tensor& self, c10::IntArrayRef size, c10::Device device) {
  TORCH_CHECK(
      device.type() == c10::kHPU && (!device.has_index() || self.device() == device),
      "out Tensor doesn't have the correct device set: it is on ", self.device(), ", expected ", device);
  at::native::resize_output(self, size);
  return self;
}

at::Tensor& set_storage(
    at::Tensor& self, at::Storage source, int64_t offset, c10::IntArrayRef size, c10::IntArrayRef stride) {
  at::native::checkSetStorage(self, std::move(source), offset, size, stride, /*check_offset_in_bounds=*/false);
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_storage_offset(offset);
  const auto itemsize = impl->dtype().itemsize();
  if (stride.data() == nullptr) {
    grow_storage(self, at::detail::computeStorageNbytesContiguous(size, itemsize, offset));
    impl->generic_set_sizes_contiguous(size);
    impl->set_storage_offset(offset);
  } else {
    grow_storage(self, at::detail::computeStorageNbytes(size, stride, itemsize, offset));
    impl->set_sizes_and_strides(size, stride, offset);
  }
  return self;
}

at::Tensor& set_nothing(at::Tensor& self) {
  return set_storage(self, make_hpu_storage(self.device().index(), 0), 0, {0}, {});
}

void record_stream(at::Tensor& self, at::Stream s) {
  TORCH_CHECK(
      s.device() == self.device(), "record_stream: the tensor is on ", self.device(), " and the stream on ",
      s.device());
  if (self.has_storage()) hpu_allocator()->recordStream(self.storage().data_ptr(), s);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, HPU, m) {
  m.impl("empty.memory_format", TORCH_FN(empty));
  m.impl("empty_strided", TORCH_FN(empty_strided));
  m.impl("_efficientzerotensor", TORCH_FN(efficient_zero_tensor));
  m.impl("resize_", TORCH_FN(resize_));
  m.impl("_resize_output_", TORCH_FN(resize_output));
  m.impl("set_.source_Storage", TORCH_FN(at::native::set_));
  m.impl("set_.source_Storage_storage_offset", TORCH_FN(set_storage));
  m.impl("set_.source_Tensor", TORCH_FN(at::native::set_tensor_));
  m.impl("set_", TORCH_FN(set_nothing));
  m.impl("record_stream", TORCH_FN(record_stream));
}

}  // namespace openhpu
