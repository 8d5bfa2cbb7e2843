#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/StorageImpl.h>

namespace openhpu {

// What stands behind the DataPtr of an hpu storage: its memory, and one CPU storage over the same bytes, shared by
// all aliases that kernels are given, so that an alias costs one small allocation.
struct HPUMemory {
  void* data;
  size_t nbytes;
  c10::DeviceIndex device;                             // index the tensor reports
  int pool;                                            // index of the software device whose memory it is
  // Made with the memory, not at first use: several threads may use a tensor for the first time at once.
  c10::intrusive_ptr<c10::StorageImpl> cpu_storage;
};

class HPUAllocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t nbytes) override;
  c10::DeleterFnPtr raw_deleter() const override;
  void copy_data(void* dest, const void* src, std::size_t count) const override;

  bool initialized() override;
  void emptyCache(c10::MempoolId_t id = {0, 0}) override;
  void recordStream(const c10::DataPtr& ptr, c10::Stream stream) override;
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex index) override;
  void resetAccumulatedStats(c10::DeviceIndex index) override;
  void resetPeakStats(c10::DeviceIndex index) override;
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex index) override;
};

HPUAllocator* hpu_allocator();

// Memory of `nbytes` on the given device. Throws c10::OutOfMemoryError.
c10::DataPtr allocate_on(c10::DeviceIndex index, size_t nbytes);
// The memory behind a storage; null when its DataPtr is not ours (external memory, no memory).
HPUMemory* memory_of(const c10::StorageImpl& storage);

}  // namespace openhpu
