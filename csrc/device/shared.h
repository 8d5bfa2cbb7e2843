#pragma once

#include <pthread.h>

#include <atomic>
#include <mutex>
#include <utility>

namespace openhpu::device {

// The one object of a type, which is never destroyed. A thread may fork while another holds the object's `mutex`, which
// in the child would stay locked for ever. So it is held across a fork.
template <class T>
T& held_across_forks() {
  static auto* one = [] {
    constexpr auto unlock = [] { held_across_forks<T>().mutex.unlock(); };
    pthread_atfork([] { held_across_forks<T>().mutex.lock(); }, unlock, unlock);
    return new T();
  }();
  return *one;
}

// What some threads leave for others, in a container. Asking where there is nothing costs one load.
template <class T>
class Inbox {
 public:
  // Calls `add` with the container.
  template <class Add>
  void leave(Add&& add) {
    std::lock_guard lock(mutex_);
    add(kept_);
    any_.store(true, std::memory_order_release);
  }
  T take() {
    if (!any_.load(std::memory_order_acquire)) return {};
    std::lock_guard lock(mutex_);
    any_.store(false, std::memory_order_release);
    return std::exchange(kept_, {});
  }

 private:
  std::mutex mutex_;
  T kept_;
  std::atomic<bool> any_{false};
};

}  // namespace openhpu::device
