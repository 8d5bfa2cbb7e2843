#pragma once

#include "device/device.h"
#include "observe/events.h"

// Which thread allocated which memory of a device, and when: for PyTorch's profiler (profile_memory=True), and as a
// history for its memory visualiser. Without a listener a block costs a relaxed load.
namespace openhpu {

struct MemoryEvent {
  int device;
  bool freed;
  uint64_t address;
  uint64_t nbytes;
  uint32_t site;     // the line that asked for it
  uint64_t time_us;  // since 1970
};

// `most`: events that are kept, the last ones; 0: none from now on, and what was kept is dropped.
void record_memory_history(size_t most);
bool recording_memory() noexcept;
// The events in order, and those of the blocks that are alive, of the blocks taken since recording began.
std::pair<std::vector<MemoryEvent>, std::vector<MemoryEvent>> memory_history();

// The first profile of this process begins: from now on each block asks whether this thread's memory is profiled.
void expect_memory_profiles() noexcept;

namespace memory_history_detail {
extern std::atomic<bool> watched;
void note_watched(device::Device& d, void* data, uint32_t site);
void free_watched(device::Device& d, void* data);
}  // namespace memory_history_detail

// A block was taken from the device's memory.
inline void note_block(device::Device& d, void* data, uint32_t site) {
  if (memory_history_detail::watched.load(std::memory_order_relaxed)) [[unlikely]]
    memory_history_detail::note_watched(d, data, site);
}
// Gives it back. A null pointer stands for a block of no bytes, as allocate_block returns it.
inline void free_block(device::Device& d, void* data) noexcept {
  if (!data) return;
  release("a block of device memory", [&] {
    if (memory_history_detail::watched.load(std::memory_order_relaxed)) [[unlikely]]
      memory_history_detail::free_watched(d, data);
    else
      d.memory().free(data);
  });
}

}  // namespace openhpu
