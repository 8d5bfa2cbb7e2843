#pragma once

#include "device/command_queue.h"

namespace openhpu::device {

// A stream is a name for a subsequence of its device's one in-order queue: ordering between streams is always at
// least as strong as asked for, and query and synchronize are exact for the stream's own commands.
// Stream 0 is the default stream.
class Stream {
 public:
  Stream(CommandQueue& queue, int64_t id) : queue_(queue), id_(id) {}

  int64_t id() const noexcept { return id_; }
  CommandQueue& queue() const noexcept { return queue_; }

  // Notes that the command with this sequence number was issued on the stream.
  void note(uint64_t sequence) noexcept {
    // Threads that issue on the same stream may note their numbers out of order; the largest one counts.
    uint64_t seen = last_.load(std::memory_order_relaxed);
    while (seen < sequence &&
           !last_.compare_exchange_weak(seen, sequence, std::memory_order_release, std::memory_order_relaxed)) {
    }
  }
  // Sequence number of the stream's last command.
  uint64_t last() const noexcept { return last_.load(std::memory_order_acquire); }
  bool query() const { return queue_.completed() >= last(); }  // true when all of the stream's commands have run
  void synchronize() const { queue_.wait(last(), OnInterrupt::Throw); }  // blocks until then

 private:
  CommandQueue& queue_;
  int64_t id_;
  std::atomic<uint64_t> last_{0};
};

}  // namespace openhpu::device
