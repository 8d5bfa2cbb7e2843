#pragma once

#include "device/device.h"
#include "run/CallRunner.h"
#include "run/KernelMemory.h"
#include "run/KernelThreads.h"
#include "run/Operator.h"
#include "run/Recycler.h"

namespace openhpu {

// Eager mode submits an operator at once. The command holds the parts of a call that its signature does not determine
// (see CallTemplate): the places of its operands and outputs, and numbers. The places are addresses and not tensors, so
// a tensor dies when the script drops it.
//
// Commands are recycled: the worker hands a finished one back to the host. So in a steady state a submission allocates
// only its outputs, and the worker never frees memory that the host allocated (their allocator arenas would contend).
class CallCommand final : public device::Command {
 public:
  static CallCommand* acquire(std::shared_ptr<const ShapeEntry> entry, device::Device& device);

  void run() override;
  void retire() override { Commands::give(this); }
  bool launches() const noexcept override { return true; }
  const char* name() const override { return entry_->call->kernel->name().c_str(); }
  bool runs_anywhere() const noexcept override { return threads_for(entry_->call->largest) == 1; }
  // How many there are in this process.
  static uint64_t total() noexcept { return Commands::total(); }

  c10::SmallVector<OperandMemory, 4> operands;
  c10::SmallVector<OutputMemory, 2> outputs;  // by storage
  std::vector<uint64_t> numbers;
  // On aliases: of a call whose arguments its signature can't express (an index on the host). They are queued as they
  // are.
  c10::Stack args;

 private:
  CallCommand() = default;

  std::shared_ptr<const ShapeEntry> entry_;
  device::Device* device_ = nullptr;
  CallCommand* next_ = nullptr;  // in a list of finished commands
  using Commands = Recycler<CallCommand, 16>;
  friend Commands;
};

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
