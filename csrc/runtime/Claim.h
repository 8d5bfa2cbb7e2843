#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "device/command_queue.h"

namespace openhpu {

// A command that uses what belongs to the thread that waits for it. Whoever takes the claim first has the command: the
// worker to run it, or the waiting thread, which a signal ended, to take it back: it is then skipped.
class Claim {
 public:
  bool take() const noexcept { return !taken_->exchange(true); }

 private:
  std::shared_ptr<std::atomic<bool>> taken_ = std::make_shared<std::atomic<bool>>(false);
};

// Waits for such a command. When the handler of a signal throws, so does this, and the command has run or never will.
inline void wait_or_take_back(device::CommandQueue& queue, uint64_t sequence, const Claim& claim) {
  try {
    queue.wait(sequence, device::OnInterrupt::Throw);
  } catch (...) {
    if (!claim.take()) queue.wait(sequence);
    throw;
  }
}

}  // namespace openhpu
