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
// So each step that repeats is timed both ways, in blocks of kTrial repetitions. The other way must be faster in two
// pairs of blocks, since a busy machine changes the times of one block by half, and other programs must not have taken
// the cores meanwhile: the worker is slower then, but only as long as they do. The faster way is then used for
// kSettled repetitions, and for twice as many each time a trial confirms it. Only times change, never results.
class Placement {
 public:
  using Clock = std::chrono::steady_clock;

  // Whether the submitting thread runs the graphs of this repetition.
  bool here() const noexcept { return here_ != (block_ == 2 || block_ == 4); }

  // Whether this repetition is timed: its time must be the device's, not that of a host far ahead of it.
  bool timed() const noexcept { return block_ != 0; }

  // A repetition has been submitted. `crowded`: other programs want the cores.
  void repeated(Clock::time_point now, bool crowded = false) noexcept {
    const auto took = now - std::exchange(last_, now);
    crowded_ = crowded_ || crowded;
    if (++count_ > kSettling) times_[count_ % kSamples] = took;
    if (count_ < (timed() ? kTrial : settled_)) return;
    count_ = 0;
    switch (block_) {
      case 0: block_ = 1; crowded_ = false; return;
      case 1: case 3: usual_ = median(); ++block_; return;
      default: break;
    }
    const bool faster = !crowded_ && median() < usual_ - usual_ / kGain;
    if (faster && block_ == 2) {
      block_ = 3;
      return;
    }
    if (faster) here_ = !here_;
    settled_ = faster ? kSettled : std::min(2 * settled_, kMostSettled);
    block_ = 0;
  }

  // Steps that take longer are the worker's, without a trial: the script goes on beside them.
  static constexpr uint64_t kMostNs = 1'000'000;
  static constexpr unsigned kSettling = 3, kSamples = 9, kTrial = kSettling + kSamples;
  static constexpr unsigned kSettled = 64, kMostSettled = 4096;

 private:
  static constexpr int kGain = 20;  // a change of less than a twentieth is noise

  Clock::duration median() const noexcept {
    auto sorted = times_;
    std::nth_element(sorted.begin(), sorted.begin() + kSamples / 2, sorted.end());
    return sorted[kSamples / 2];
  }

  bool here_ = false, crowded_ = false;
  uint8_t block_ = 1;  // of a trial: 1 and 3 the usual way, 2 and 4 the other; 0: no trial
  unsigned count_ = 0, settled_ = kSettled / 2;
  Clock::time_point last_;
  Clock::duration usual_{0};
  std::array<Clock::duration, kSamples> times_{};
};

}  // namespace openhpu
