#pragma once

#include <atomic>
#include <thread>

namespace openhpu {

// For sections of tens of nanoseconds that two threads rarely enter at once.
class SpinLock {
 public:
  void lock() noexcept {
    while (flag_.test_and_set(std::memory_order_acquire)) std::this_thread::yield();
  }
  void unlock() noexcept { flag_.clear(std::memory_order_release); }

 private:
  std::atomic_flag flag_;
};

}  // namespace openhpu
