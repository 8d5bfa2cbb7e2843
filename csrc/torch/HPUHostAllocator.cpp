#include "torch/HPUHostAllocator.h"

#include <c10/core/StorageImpl.h>
#include <c10/util/Exception.h>

#include <cstring>

#include "device/memory_pool.h"
#include "torch/HPUDevice.h"

namespace openhpu {
namespace {

device::MemoryPool& pool() {
  // Leaked, as every allocator: pinned tensors may outlive static destructors.
  static auto* p = [] {
    auto& config = device::DeviceRegistry::instance().config();
    const uint64_t bytes = config.memory_bytes ? config.memory_bytes : uint64_t{64} << 30;
    return new device::MemoryPool("HPU pinned host memory", bytes, /*watchful=*/true);
  }();
  return *p;
}

std::atomic<bool> used{false};

void free_pinned(void* ptr) { pool().free(ptr); }

struct PinnedAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t nbytes) override {
    if (nbytes == 0) return {nullptr, nullptr, &c10::detail::deleteNothing, c10::Device(c10::kCPU)};
    used.store(true, std::memory_order_release);
    void* ptr = nullptr;
    try {
      ptr = pool().allocate(nbytes);
    } catch (const device::OutOfMemory& e) {
      TORCH_CHECK_WITH(OutOfMemoryError, false, e.what());
    }
    return {ptr, ptr, &free_pinned, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_pinned; }
  void copy_data(void* dest, const void* src, std::size_t count) const override { std::memcpy(dest, src, count); }
};

}  // namespace

c10::Allocator* pinned_allocator() {
  static auto* allocator = new PinnedAllocator();
  return allocator;
}

bool is_pinned_ptr(const void* ptr) { return used.load(std::memory_order_acquire) && pool().contains(ptr); }

}  // namespace openhpu
