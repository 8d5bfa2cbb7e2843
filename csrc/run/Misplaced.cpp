#include "run/KernelMemory.h"

#include "observe/events.h"
#include "run/Tensors.h"

namespace openhpu {
namespace {

at::Tensor bytes_of(c10::Storage storage) {
  const auto nbytes = static_cast<int64_t>(storage.nbytes());
  return at::Tensor(host_tensor_on(std::move(storage), c10::scalarTypeToTypeMeta(at::kByte), {nbytes}, {1}, 0));
}

}  // namespace

void Misplaced::add(void* place, const c10::Storage& result) {
  add(bytes_of(host_storage_over(place, result.nbytes())), bytes_of(result));
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
