#include "device/stream.h"

#include "device/command_queue.h"

namespace openhpu::device {

void Stream::note(uint64_t sequence) noexcept {
  // Threads that issue on the same stream may note their numbers out of order; the largest one counts.
  uint64_t seen = last_.load(std::memory_order_relaxed);
  while (seen < sequence && !last_.compare_exchange_weak(seen, sequence, std::memory_order_release,
                                                         std::memory_order_relaxed)) {
  }
}

bool Stream::query() const { return queue_.completed() >= last(); }

void Stream::synchronize() const { queue_.wait(last(), OnInterrupt::Throw); }

}  // namespace openhpu::device
