#pragma once

#include <atomic>
#include <cstdint>

namespace openhpu::device {

class CommandQueue;

// A stream is a name for a subsequence of its device's one in-order queue: ordering between streams is always at
// least as strong as asked for, and query and synchronize are exact for the stream's own commands.
// Stream 0 is the default stream.
class Stream {
 public:
  Stream(CommandQueue& queue, int64_t id, int priority) : queue_(queue), id_(id), priority_(priority) {}

  int64_t id() const noexcept { return id_; }
  int priority() const noexcept { return priority_; }
  CommandQueue& queue() const noexcept { return queue_; }

  // Notes that the command with this sequence number was issued on the stream.
  void note(uint64_t sequence) noexcept;
  // Sequence number of the stream's last command.
  uint64_t last() const noexcept { return last_.load(std::memory_order_acquire); }
  bool query() const;        // true when all of the stream's commands have run
  void synchronize() const;  // blocks until then

 private:
  CommandQueue& queue_;
  int64_t id_;
  int priority_;
  std::atomic<uint64_t> last_{0};
};

}  // namespace openhpu::device
