#include "run/Eager.h"

namespace openhpu {
namespace {

// The worker used it last, so it lies in the cache of the worker's core.
void fetch_to_write(const CallCommand* command) {
  for (size_t at = 0; at < sizeof(CallCommand); at += 64) {
    const char* line = reinterpret_cast<const char*>(command) + at;
#if defined(__x86_64__)
    asm volatile("prefetchw %0" : : "m"(*line));  // the compiler has it for newer processors only
#else
    __builtin_prefetch(line, 1);
#endif
  }
}
}  // namespace

CallCommand* CallCommand::acquire(std::shared_ptr<const ShapeEntry> entry, device::Device& device) {
  CallCommand* c = Commands::take();
  if (auto* next = Commands::next()) fetch_to_write(next);
  c->operands.clear();
  c->outputs.clear();
  c->numbers.clear();
  c->args.clear();  // of one that never ran
  c->entry_ = std::move(entry);
  c->device_ = &device;
  return c;
}

void CallCommand::run() {
  device::MemoryPool::AccessScope access(device_->memory());
  auto& runner = CallRunner::of(*device_);
  if (C10_LIKELY(entry_->call->recordable)) return runner.run(*entry_, operands.data(), numbers.data(), outputs.data());
  c10::Stack taken = std::move(args);
  runner.run(*entry_, taken, outputs.data());
}

}  // namespace openhpu
