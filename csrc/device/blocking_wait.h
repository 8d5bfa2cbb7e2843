#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "Above.h"

// A thread brackets a blocking wait with it. The device library does not know Python: the module supplies what releases
// Python's lock (`Above`). Without it a command that needs the lock would deadlock.
namespace openhpu::device {

// The effect of a signal on a wait. `Return`: the wait ends, and the signal is handled later; for waits in the middle
// of an operation, because a handler may run any code. `Throw`: the handler runs at once, and its exception ends the
// wait; for waits at which no operation is half done.
enum class OnInterrupt { GoOn, Return, Throw };

// How a wait ended.
enum class Waited { Done, Interrupted, TooLong };

// Brackets one blocking wait of the calling thread.
class BlockingWait {
 public:
  BlockingWait() : state_(above.enter_wait()) {}
  ~BlockingWait() { above.leave_wait(state_); }
  BlockingWait(const BlockingWait&) = delete;
  BlockingWait& operator=(const BlockingWait&) = delete;

  // How often a wait that hears of signals has to ask for them.
  static constexpr std::chrono::milliseconds kAsk{50};
  bool hears(OnInterrupt what) const { return what != OnInterrupt::GoOn && above.hears_signals(); }
  // Whether the wait is to end. Only if it hears, and without locks that a handler might want.
  bool interrupted(OnInterrupt what) const {
    if (what == OnInterrupt::Throw) {
      above.handle_signals();
      return false;
    }
    return what == OnInterrupt::Return && above.interrupt_pending();
  }
  // Waits under `lock` until `done()`, an interrupt, or the deadline. `changed` tells of changes. While signals are
  // asked for, the lock is free, also if a handler throws.
  template <class Done>
  Waited until(
      std::unique_lock<std::mutex>& lock, std::condition_variable& changed, OnInterrupt what, Done&& done,
      std::chrono::steady_clock::time_point deadline = std::chrono::steady_clock::time_point::max()) const {
    const bool hears = this->hears(what);
    while (!done()) {
      const auto now = std::chrono::steady_clock::now();
      if (now >= deadline) return Waited::TooLong;
      const auto end = hears ? std::min(deadline, now + kAsk) : deadline;
      if (end == std::chrono::steady_clock::time_point::max())
        changed.wait(lock);
      else if (changed.wait_until(lock, end) == std::cv_status::timeout && hears) {
        lock.unlock();
        const bool ends = interrupted(what);
        lock.lock();
        if (ends) return done() ? Waited::Done : Waited::Interrupted;
      }
    }
    return Waited::Done;
  }

 private:
  void* const state_;
};

// Locks. A thread that finds the mutex taken gives up Python's lock, since the holder may be waiting for it.
template <class Mutex>
std::unique_lock<Mutex> lock_patiently(Mutex& mutex) {
  std::unique_lock lock(mutex, std::try_to_lock);
  if (__builtin_expect(!lock.owns_lock(), 0)) {
    BlockingWait waiting;
    lock.lock();
  }
  return lock;
}

}  // namespace openhpu::device
