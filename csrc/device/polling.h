#pragma once

#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <utility>

namespace openhpu::device {

// How often the system gave this thread's core to another thread while this thread could run.
inline long involuntary_switches() noexcept {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nivcsw;
}

// How long threads poll before they sleep. Polling pays only while the thread has a core to itself. A polling thread
// has lost its core to another thread if it was put aside for longer than an interrupt takes, and if the system counted
// that as a switch. Then no thread polls for a while. On a virtual machine the host's system puts the whole core aside,
// often and without a switch: that takes nothing from other threads, and polling goes on.
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
  bool operator()(Done done, long (*switches)() = involuntary_switches) {
    const int us = us_.load(std::memory_order_relaxed);
    if (us <= 0) return done();
    auto now = Clock::now();
    if (crowded(now)) return done();
    const auto deadline = now + std::chrono::microseconds(us);
    long known = -1;  // asked for only where the first looks found nothing
    do {
      for (int i = 0; i < 64; ++i) {
        if (done()) return true;
        pause();
      }
      const auto before = std::exchange(now, Clock::now());
      if (known < 0) {
        known = switches();
      } else if (now - before > kPutAside && switches() != known) {
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
