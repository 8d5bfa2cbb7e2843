#include "observe/MemoryHistory.h"

#include <c10/core/Allocator.h>

#include <deque>
#include <mutex>
#include <unordered_map>

#include "device/trace.h"
#include "observe/site.h"

namespace openhpu {

std::atomic<bool> memory_history_detail::watched{false};

namespace {

std::atomic<bool> recording{false};

struct History {
  std::mutex mutex;
  size_t most = 0;
  std::deque<MemoryEvent> events;
  std::unordered_map<uint64_t, MemoryBlock> alive;
};
History& history() {
  static auto* h = new History();
  return *h;
}

// What was taken, or given back, in bytes.
void tell_profiler(device::Device& d, void* data, int64_t nbytes) {
  const auto stats = d.memory().stats();
  c10::reportMemoryUsageToProfiler(
      data, nbytes, stats.in_use, stats.limit, c10::Device(c10::kHPU, static_cast<c10::DeviceIndex>(d.index())));
}

void keep(History& h, const MemoryEvent& event) {
  if (h.events.size() == h.most) h.events.pop_front();
  h.events.push_back(event);
}

}  // namespace

void record_memory_history(size_t most) {
  auto& h = history();
  std::lock_guard lock(h.mutex);
  h.most = most;
  h.events.clear();
  h.alive.clear();
  recording.store(most > 0, std::memory_order_relaxed);
  if (most > 0) memory_history_detail::watched.store(true, std::memory_order_relaxed);
}

void expect_memory_profiles() noexcept { memory_history_detail::watched.store(true, std::memory_order_relaxed); }

bool recording_memory() noexcept { return recording.load(std::memory_order_relaxed); }

std::pair<std::vector<MemoryEvent>, std::vector<MemoryBlock>> memory_history() {
  auto& h = history();
  std::lock_guard lock(h.mutex);
  std::vector<MemoryBlock> alive;
  for (const auto& [address, block] : h.alive) alive.push_back(block);
  return {{h.events.begin(), h.events.end()}, std::move(alive)};
}

void memory_history_detail::note_watched(device::Device& d, void* data, uint32_t site) {
  if (C10_UNLIKELY(recording.load(std::memory_order_relaxed))) {
    const auto address = reinterpret_cast<uint64_t>(data);
    const uint64_t size = d.memory().block_size(data);
    if (!site) site = current_site();
    auto& h = history();
    std::lock_guard lock(h.mutex);
    if (h.most > 0) {
      keep(h, {d.index(), false, address, size, site, device::trace_clock() / 1000});
      h.alive[address] = {d.index(), address, size, site};
    }
  }
  if (C10_UNLIKELY(c10::memoryProfilingEnabled())) tell_profiler(d, data, static_cast<int64_t>(d.memory().block_size(data)));
}

void memory_history_detail::free_watched(device::Device& d, void* data) {
  const bool profiled = c10::memoryProfilingEnabled();
  const int64_t nbytes = C10_UNLIKELY(profiled) ? static_cast<int64_t>(d.memory().block_size(data)) : 0;
  if (C10_UNLIKELY(recording.load(std::memory_order_relaxed))) {
    const auto address = reinterpret_cast<uint64_t>(data);
    auto& h = history();
    std::lock_guard lock(h.mutex);
    if (const auto it = h.alive.find(address); it != h.alive.end()) {
      keep(h, {d.index(), true, address, it->second.nbytes, it->second.site, device::trace_clock() / 1000});
      h.alive.erase(it);
    }
  }
  d.memory().free(data);
  if (C10_UNLIKELY(profiled)) tell_profiler(d, data, -nbytes);
}

}  // namespace openhpu
