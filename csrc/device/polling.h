#pragma once

#include <atomic>
#include <chrono>
#include <utility>

namespace openhpu::device {

// How long threads poll before they sleep. Polling pays only while the thread has a core to itself. A polling thread
// that was put aside for longer than an interrupt takes has lost its core to another thread. Then no thread polls for a
// while.
class Polling {
  using Clock = std::chrono::steady_clock;

 public:
  explicit Polling(int us) : us_(us) {}
  void set_us(int us) noexcept { us_.store(us, std::memory_order_relaxed); }

  bool crowded(Clock::time_point now = Clock::now()) const noexcept {
    return now.time_since_epoch().count() < crowded_until_.load(std::memory_order_relaxed);
  }

  // Polls until `done` or until the time is over. Returns whether it is done.
  template <class Done>
  bool operator()(Done done) {
    const int us = us_.load(std::memory_order_relaxed);
    if (us <= 0) return done();
    auto now = Clock::now();
    if (crowded(now)) return done();
    const auto deadline = now + std::chrono::microseconds(us);
    do {
      for (int i = 0; i < 64; ++i) {
        if (done()) return true;
        pause();
      }
      const auto before = std::exchange(now, Clock::now());
      if (now - before > kPutAside) {
        crowded_until_.store((now + kRest).time_since_epoch().count(), std::memory_order_relaxed);
        break;
      }
    } while (now < deadline);
    return done();
  }

 private:
  static void pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }

  static constexpr std::chrono::microseconds kPutAside{100};  // a scheduler's slice is longer, an interrupt shorter
  static constexpr std::chrono::milliseconds kRest{100};
  std::atomic<int> us_;
  std::atomic<Clock::rep> crowded_until_{0};
};

}  // namespace openhpu::device
