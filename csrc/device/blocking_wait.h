#pragma once

#include <chrono>
#include <mutex>

#include "Above.h"

// A thread brackets a blocking wait with it. The device library does not know Python: the module supplies what releases
// Python's lock (`Above`). Without it a command that needs the lock would deadlock.
namespace openhpu::device {

// The effect of a signal on a wait. `Return`: the wait ends, and the signal is handled later; for waits in the middle
// of an operation, because a handler may run any code. `Throw`: the handler runs at once, and its exception ends the
// wait; for waits at which no operation is half done.
enum class OnInterrupt { GoOn, Return, Throw };

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
