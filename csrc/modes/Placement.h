#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace openhpu {

// Which thread runs the graphs of a step, where either may: the worker, or the thread that submits them. What is faster
// depends on the machine: on the cost of waking a thread, on whether two cores are one physical core, on other programs.
// So each step that repeats is timed both ways. The faster way is then used for kSettled repetitions, and the other way
// is tried again for kTrial repetitions. Only times change, never results.
class Placement {
 public:
  using Clock = std::chrono::steady_clock;

  // Whether the submitting thread runs the graphs of this repetition.
  bool here() const noexcept { return trial_ ? !here_ : here_; }

  // Whether the next repetitions are timed: their times must be the device's, not those of a host far ahead of it.
  bool timed() const noexcept { return trial_ || !tried_ || count_ + kTrial >= kSettled; }

  // A repetition has been submitted.
  void repeated(Clock::time_point now) noexcept {
    const auto took = now - std::exchange(last_, now);
    if (++count_ > kSettling) times_[count_ % kSamples] = took;
    if (!trial_) {
      if (count_ < (tried_ ? kSettled : kTrial)) return;
      usual_ = median();
    } else {
      if (count_ < kTrial) return;
      if (median() < usual_ - usual_ / kGain) here_ = !here_;
      tried_ = true;
    }
    trial_ = !trial_;
    count_ = 0;
  }

  // Graphs that take longer are the worker's: the script goes on beside them.
  static constexpr uint64_t kMostNs = 1'000'000;
  static constexpr unsigned kSettling = 3, kSamples = 9, kTrial = kSettling + kSamples, kSettled = 500;

 private:
  static constexpr int kGain = 20;  // a change of less than a twentieth is noise

  Clock::duration median() const noexcept {
    auto sorted = times_;
    std::nth_element(sorted.begin(), sorted.begin() + kSamples / 2, sorted.end());
    return sorted[kSamples / 2];
  }

  bool here_ = false, trial_ = false, tried_ = false;
  unsigned count_ = 0;
  Clock::time_point last_;
  Clock::duration usual_{0};
  std::array<Clock::duration, kSamples> times_{};
};

}  // namespace openhpu
