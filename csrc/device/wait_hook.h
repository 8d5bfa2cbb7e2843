#pragma once

#include <chrono>
#include <mutex>

// A thread calls this around a blocking wait. The device library does not know Python. The bindings install a hook that
// releases Python's lock. Without it a command that needs the lock would deadlock.
namespace openhpu::device {

struct WaitHook {
  void* (*enter)() = nullptr;      // called before blocking; the result is handed to `leave`
  void (*leave)(void*) = nullptr;  // called after waking up
  // Of signals that end a wait (Ctrl-C). Called between `enter` and `leave`.
  bool (*hears)() = nullptr;    // whether the calling thread is the one that handles them; null: none does
  bool (*pending)() = nullptr;  // whether an interrupt came; it stays to be handled
  void (*handle)() = nullptr;   // runs the handlers of all signals that came, and throws what they throw
};

void set_wait_hook(WaitHook hook);

// The effect of a signal on a wait. `Return`: the wait ends, and the signal is handled later; for waits in the middle
// of an operation, because a handler may run any code. `Throw`: the handler runs at once, and its exception ends the
// wait; for waits at which no operation is half done.
enum class OnInterrupt { GoOn, Return, Throw };

// Brackets one blocking wait of the calling thread.
class BlockingWait {
 public:
  BlockingWait();
  ~BlockingWait();
  BlockingWait(const BlockingWait&) = delete;
  BlockingWait& operator=(const BlockingWait&) = delete;

  // How often a wait that hears of signals has to ask for them.
  static constexpr std::chrono::milliseconds kAsk{50};
  bool hears(OnInterrupt what) const { return what != OnInterrupt::GoOn && hears_ && hears_(); }
  // Whether the wait is to end. Only if it hears, and without locks that a handler might want.
  bool interrupted(OnInterrupt what) const;

 private:
  void (*leave_)(void*);
  void* state_;
  bool (*hears_)();
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
