#include "device/wait_hook.h"

#include <atomic>

namespace openhpu::device {
namespace {

std::atomic<void* (*)()> enter_hook{nullptr};
std::atomic<void (*)(void*)> leave_hook{nullptr};
std::atomic<bool (*)()> hears_hook{nullptr}, pending_hook{nullptr};
std::atomic<void (*)()> handle_hook{nullptr};

}  // namespace

void set_wait_hook(WaitHook hook) {
  // `enter` is published last and withdrawn first: a thread that sees it also sees what belongs to it.
  enter_hook.store(nullptr, std::memory_order_release);
  leave_hook.store(hook.leave, std::memory_order_release);
  hears_hook.store(hook.hears, std::memory_order_release);
  pending_hook.store(hook.pending, std::memory_order_release);
  handle_hook.store(hook.handle, std::memory_order_release);
  enter_hook.store(hook.enter, std::memory_order_release);
}

BlockingWait::BlockingWait() : leave_(nullptr), state_(nullptr), hears_(nullptr) {
  if (auto enter = enter_hook.load(std::memory_order_acquire)) {
    // Kept here, so that enter and leave stay a pair when the hook is replaced during the wait.
    leave_ = leave_hook.load(std::memory_order_acquire);
    hears_ = hears_hook.load(std::memory_order_acquire);
    state_ = enter();
  }
}

BlockingWait::~BlockingWait() {
  if (leave_) leave_(state_);
}

bool BlockingWait::interrupted(OnInterrupt what) const {
  if (what == OnInterrupt::Throw) {
    if (auto handle = handle_hook.load(std::memory_order_acquire)) handle();
    return false;
  }
  const auto pending = pending_hook.load(std::memory_order_acquire);
  return what == OnInterrupt::Return && pending && pending();
}

}  // namespace openhpu::device
