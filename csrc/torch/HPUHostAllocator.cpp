#include "torch/HPUAllocator.h"

#include <ATen/core/CachingHostAllocator.h>

#include "device/shared.h"

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

// PyTorch's class of it: `torch.accelerator.empty_host_cache()` calls the registered one, and crashes without one.
struct PinnedAllocator final : at::HostAllocator {
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
  // A copy keeps its host memory until it is done.
  bool record_event(void* /*ptr*/, void* /*context*/, c10::Stream /*stream*/) override { return true; }
  void empty_cache() override {
    if (used.load(std::memory_order_acquire)) pool().trim();
  }
  at::HostStats get_stats() override {
    at::HostStats found;
    if (!used.load(std::memory_order_acquire)) return found;
    const auto stats = pool().stats();
    found.active_bytes.current = static_cast<int64_t>(stats.in_use);
    found.active_bytes.peak = static_cast<int64_t>(stats.max_in_use);
    return found;
  }
  void reset_accumulated_stats() override { pool().reset_accumulated(); }
  void reset_peak_stats() override { pool().reset_peak(); }
};

auto& allocator = *new PinnedAllocator();

const at::HostAllocatorRegistry<at::kHPU> registered(&allocator);

device::Inbox<std::vector<c10::Storage>> returned;

}  // namespace

c10::Allocator* pinned_allocator() { return &allocator; }

bool is_pinned_ptr(const void* ptr) { return used.load(std::memory_order_acquire) && pool().contains(ptr); }

void return_to_host(c10::Storage storage) {
  returned.leave([&](auto& all) { all.push_back(std::move(storage)); });
}

void release_returned() { returned.take(); }

}  // namespace openhpu
