#pragma once

// What a thread must do around a blocking wait. The device library knows nothing of Python; the bindings
// install a hook that releases the interpreter lock, without which a command that needs it would deadlock.
namespace openhpu::device {

struct WaitHook {
  void* (*enter)() = nullptr;      // called before blocking; the result is handed to `leave`
  void (*leave)(void*) = nullptr;  // called after waking up
};

void set_wait_hook(WaitHook hook);

// Brackets one blocking wait of the calling thread.
class BlockingWait {
 public:
  BlockingWait();
  ~BlockingWait();
  BlockingWait(const BlockingWait&) = delete;
  BlockingWait& operator=(const BlockingWait&) = delete;

 private:
  void (*leave_)(void*);
  void* state_;
};

}  // namespace openhpu::device
