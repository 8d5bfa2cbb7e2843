#pragma once

#include <atomic>
#include <memory>

#include "device/command_queue.h"

namespace openhpu {

// A command that uses objects of the thread that waits for it. The thread that takes the claim first has the command.
// The worker takes it to run the command. The waiting thread takes it after a signal, to cancel the command, which is
// then skipped.
class Claim {
 public:
  bool take() const noexcept { return !taken_->exchange(true); }

 private:
  std::shared_ptr<std::atomic<bool>> taken_ = std::make_shared<std::atomic<bool>>(false);
};

// Waits for such a command. If the handler of a signal throws, this throws too, and the command has run or never will.
inline void wait_or_take_back(device::CommandQueue& queue, uint64_t sequence, const Claim& claim) {
  try {
    queue.wait(sequence, device::OnInterrupt::Throw);
  } catch (...) {
    if (!claim.take()) queue.wait(sequence);
    throw;
  }
}

}  // namespace openhpu
