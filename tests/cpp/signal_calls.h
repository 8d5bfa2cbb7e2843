#pragma once

#include <atomic>

#include "device/wait_hook.h"

namespace openhpu::device::testing {

// The part of a wait hook that hears of signals: what it says, and how often it was asked.
struct SignalCalls {
  static inline std::atomic<int> asked{0};
  static inline std::atomic<bool> hears{true};
  static inline std::atomic<bool> pending{false};
  struct Interrupt {};

  SignalCalls() {
    asked = 0;
    hears = true;
    pending = false;
    set_wait_hook({[]() -> void* { return nullptr; }, [](void*) {}, [] { return hears.load(); },
                   [] { ++asked; return pending.load(); },
                   [] {
                     ++asked;
                     if (pending) throw Interrupt();
                   }});
  }
  ~SignalCalls() { set_wait_hook({}); }
};

}  // namespace openhpu::device::testing
