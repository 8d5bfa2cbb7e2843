#pragma once

#include <atomic>

#include "device/blocking_wait.h"

namespace openhpu::device::testing {

// What hears of signals in a wait: what it says, and how often it was asked.
struct SignalCalls {
  static inline std::atomic<int> asked{0};
  static inline std::atomic<bool> hears{true};
  static inline std::atomic<bool> pending{false};
  struct Interrupt {};

  SignalCalls() {
    asked = 0;
    hears = true;
    pending = false;
    above.hears_signals = [] { return hears.load(); };
    above.interrupt_pending = [] {
      ++asked;
      return pending.load();
    };
    above.handle_signals = [] {
      ++asked;
      if (pending) throw Interrupt();
    };
  }
  ~SignalCalls() { above.hears_signals = Above().hears_signals; }
};

}  // namespace openhpu::device::testing
