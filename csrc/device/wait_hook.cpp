#include "device/wait_hook.h"

#include <atomic>

namespace openhpu::device {
namespace {

std::atomic<void* (*)()> enter_hook{nullptr};
std::atomic<void (*)(void*)> leave_hook{nullptr};

}  // namespace

void set_wait_hook(WaitHook hook) {
  // `enter` is published last and withdrawn first: a thread that sees it also sees the matching `leave`.
  enter_hook.store(nullptr, std::memory_order_release);
  leave_hook.store(hook.leave, std::memory_order_release);
  enter_hook.store(hook.enter, std::memory_order_release);
}

BlockingWait::BlockingWait() : leave_(nullptr), state_(nullptr) {
  if (auto enter = enter_hook.load(std::memory_order_acquire)) {
    // Kept here, so that enter and leave stay a pair when the hook is replaced during the wait.
    leave_ = leave_hook.load(std::memory_order_acquire);
    state_ = enter();
  }
}

BlockingWait::~BlockingWait() {
  if (leave_) leave_(state_);
}

}  // namespace openhpu::device
