#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

namespace openhpu {

// The time that something takes in its runs: a mean of about four. A run that was interrupted counts as twice the mean.
class UsualTime {
 public:
  using Clock = std::chrono::steady_clock;

  uint64_t ns() const noexcept { return ns_.load(std::memory_order_relaxed); }

  // `parts`: the run did the work so many times.
  void note(Clock::duration took, size_t parts = 1) noexcept {
    const int64_t each = took.count() / static_cast<int64_t>(parts), mean = ns();
    const int64_t bounded = std::clamp<int64_t>(each, 1, mean ? 2 * mean : kMost);
    ns_.store(static_cast<uint32_t>(mean ? mean + (bounded - mean) / 4 : bounded), std::memory_order_relaxed);
  }

 private:
  static constexpr int64_t kMost = 1'000'000'000;
  std::atomic<uint32_t> ns_{0};
};

}  // namespace openhpu
