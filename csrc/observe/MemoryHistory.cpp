#include "observe/MemoryHistory.h"

#include <c10/core/Allocator.h>

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
  std::unordered_map<uint64_t, MemoryEvent> alive;
};
auto& history = *new History();

// What was taken, or given back, in bytes.
void tell_profiler(device::Device& d, void* data, int64_t nbytes) {
  const auto stats = d.memory().stats();
  c10::reportMemoryUsageToProfiler(
      data, nbytes, stats.in_use, stats.limit, c10::Device(c10::kHPU, static_cast<c10::DeviceIndex>(d.index())));
}

void keep(const MemoryEvent& event) {
  if (history.events.size() == history.most) history.events.pop_front();
  history.events.push_back(event);
}

}  // namespace

void record_memory_history(size_t most) {
  std::lock_guard lock(history.mutex);
  history.most = most;
  history.events.clear();
  history.alive.clear();
  recording.store(most > 0, std::memory_order_relaxed);
  if (most > 0) memory_history_detail::watched.store(true, std::memory_order_relaxed);
}

void expect_memory_profiles() noexcept { memory_history_detail::watched.store(true, std::memory_order_relaxed); }

bool recording_memory() noexcept { return recording.load(std::memory_order_relaxed); }

std::pair<std::vector<MemoryEvent>, std::vector<MemoryEvent>> memory_history() {
  std::lock_guard lock(history.mutex);
  std::vector<MemoryEvent> alive;
  for (const auto& [address, block] : history.alive) alive.push_back(block);
  return {{history.events.begin(), history.events.end()}, std::move(alive)};
}

void memory_history_detail::note_watched(device::Device& d, void* data, uint32_t site) {
  if (C10_UNLIKELY(recording.load(std::memory_order_relaxed))) {
    const auto address = reinterpret_cast<uint64_t>(data);
    const uint64_t size = d.memory().block_size(data);
    if (!site) site = current_site();
    std::lock_guard lock(history.mutex);
    if (history.most > 0) {
      keep({d.index(), false, address, size, site, device::trace_clock() / 1000});
      history.alive[address] = history.events.back();
    }
  }
  if (C10_UNLIKELY(c10::memoryProfilingEnabled()))
    tell_profiler(d, data, static_cast<int64_t>(d.memory().block_size(data)));
}

void memory_history_detail::free_watched(device::Device& d, void* data) {
  const bool profiled = c10::memoryProfilingEnabled();
  const int64_t nbytes = C10_UNLIKELY(profiled) ? static_cast<int64_t>(d.memory().block_size(data)) : 0;
  if (C10_UNLIKELY(recording.load(std::memory_order_relaxed))) {
    const auto address = reinterpret_cast<uint64_t>(data);
    std::lock_guard lock(history.mutex);
    if (const auto it = history.alive.find(address); it != history.alive.end()) {
      keep({d.index(), true, address, it->second.nbytes, it->second.site, device::trace_clock() / 1000});
      history.alive.erase(it);
    }
  }
  d.memory().free(data);
  if (C10_UNLIKELY(profiled)) tell_profiler(d, data, -nbytes);
}

}  // namespace openhpu
