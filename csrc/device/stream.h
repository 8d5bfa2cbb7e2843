#pragma once

#include <array>
#include <mutex>
#include <stdexcept>
#include <string>

#include "device/command_queue.h"

namespace openhpu::device {

// A stream is a name for a subsequence of its device's one in-order queue: ordering between streams is always at
// least as strong as asked for, and query and synchronize are exact for the stream's own commands.
// Stream 0 is the default stream. A stream without commands needs no queue: it exists before its device is opened.
class Stream {
 public:
  Stream() = default;
  Stream(CommandQueue& queue, int64_t id) : queue_(&queue), id_(id) {}

  int64_t id() const noexcept { return id_; }
  CommandQueue& queue() const noexcept { return *queue_; }  // only while the device is open

  // Notes that the command with this sequence number was issued on the stream.
  void note(uint64_t sequence) noexcept {
    // Threads that issue on the same stream may note their numbers out of order; the largest one counts.
    uint64_t seen = last_.load(std::memory_order_relaxed);
    while (seen < sequence &&
           !last_.compare_exchange_weak(seen, sequence, std::memory_order_release, std::memory_order_relaxed)) {
    }
  }
  // Sequence number of the stream's last command; 0: there was none.
  uint64_t last() const noexcept { return last_.load(std::memory_order_acquire); }
  // True when all of the stream's commands have run.
  bool query() const {
    const uint64_t last = this->last();
    return last == 0 || queue_->completed() >= last;
  }
  // Blocks until then.
  void synchronize() const {
    if (const uint64_t last = this->last()) queue_->wait(last, OnInterrupt::Throw);
  }

 private:
  friend class Streams;
  CommandQueue* queue_ = nullptr;
  int64_t id_ = 0;
  std::atomic<uint64_t> last_{0};
};

// The streams of one device index. They live as long as the process, and exist before the device does. There are 32 of
// high priority and 32 others beside the default stream. After that streams are handed out again in turn, as on
// PyTorch's other accelerators. So a script that makes one in each step does not grow.
class Streams {
 public:
  Streams() {
    for (size_t id = 0; id < streams_.size(); ++id) streams_[id].id_ = static_cast<int64_t>(id);
  }
  // Throws std::out_of_range for a number that no stream has got; `index` is the device's, for the message.
  Stream& at(int64_t id, int index) {
    if (id < 0 || id > made_.load(std::memory_order_acquire))
      throw std::out_of_range("HPU " + std::to_string(index) + " has no stream " + std::to_string(id));
    return streams_[static_cast<size_t>(id)];
  }
  // A new one. A priority below 0 is high.
  Stream& make(int priority) {
    std::lock_guard lock(mutex_);
    auto& [ids, turn] = kinds_[priority < 0];
    if (ids.size() == kOfAKind) return streams_[static_cast<size_t>(ids[turn++ % kOfAKind])];
    const int64_t id = made_.fetch_add(1, std::memory_order_acq_rel) + 1;
    ids.push_back(id);
    return streams_[static_cast<size_t>(id)];
  }
  // The device is being opened: commands go to this queue.
  void attach(CommandQueue& queue) {
    for (auto& stream : streams_) stream.queue_ = &queue;
  }

 private:
  static constexpr size_t kOfAKind = 32;
  // The streams of one kind of priority.
  struct Kind {
    std::vector<int64_t> ids;
    size_t turn = 0;  // index of the next one to hand out
  };
  std::array<Stream, 1 + 2 * kOfAKind> streams_;
  std::atomic<int64_t> made_{0};  // beside the default stream
  std::mutex mutex_;
  std::array<Kind, 2> kinds_;
};

}  // namespace openhpu::device
