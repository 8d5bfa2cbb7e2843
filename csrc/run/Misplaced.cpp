#include "run/Misplaced.h"

#include "observe/events.h"
#include "run/KernelMemory.h"

namespace openhpu {
namespace {

at::Tensor bytes_of(c10::Storage storage) {
  const auto nbytes = static_cast<int64_t>(storage.nbytes());
  auto impl = c10::make_intrusive<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), c10::scalarTypeToTypeMeta(at::kByte));
  impl->set_sizes_contiguous({nbytes});
  return at::Tensor(std::move(impl));
}

}  // namespace

void Misplaced::add(void* place, const c10::Storage& result) {
  auto over = c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), result.nbytes(),
      c10::DataPtr(place, nullptr, [](void*) {}, c10::Device(c10::kCPU)), nullptr, /*resizable=*/false);
  add(bytes_of(c10::Storage(std::move(over))), bytes_of(result));
}

void Misplaced::deliver(device::Device& device) {
  if (results_.empty()) return;
  // Not the kernel's allocations, which may be meant for outputs.
  KernelScope of_copies(device.workspace(), nullptr, 0, false);
  // Only what lies in the device's memory can lie in a result's place.
  for (auto& [place, value] : results_) {
    const auto* data = static_cast<const char*>(value.storage().data());
    const auto* own = static_cast<const char*>(place.storage().data());
    if (!device.memory().contains(data)) continue;
    if (results_.size() > 1 || (data >= own && data < own + place.storage().nbytes())) value = value.clone();
  }
  for (auto& result : results_) result.place.copy_(result.value);
  count(Counter::OutputsCopied, results_.size());
}

}  // namespace openhpu
