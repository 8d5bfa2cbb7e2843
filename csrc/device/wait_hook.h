#pragma once

#include <chrono>

// What a thread must do around a blocking wait. The device library knows nothing of Python; the bindings
// install a hook that releases the interpreter lock, without which a command that needs it would deadlock.
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

// What a signal does to a wait. `Return`: the wait ends, and the signal is handled when the script goes on; for waits
// in the middle of something, since a handler may run any code. `Throw`: its handler runs at once, and what that throws
// ends the wait; for waits at which nothing is half done.
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

}  // namespace openhpu::device
