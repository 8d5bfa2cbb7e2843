#include "modes/Eager.h"

#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>

#include <omp.h>
#include <unistd.h>

#include <cstring>

#include "device/cores.h"
#include "ops/Alias.h"
#include "runtime/HPUAllocator.h"
#include "runtime/HPUDevice.h"
#include "runtime/KernelWarnings.h"
#include "runtime/events.h"

namespace openhpu {
void set_up_worker() {
  static thread_local c10::InferenceMode no_autograd(true);
  collect_kernel_warnings();
}

int threads_for(size_t largest_bytes) noexcept {
  // PyTorch's own grain of 32,768 elements, in float32. Below it elementwise kernels use one thread anyway, while
  // others (oneDNN's, fused optimizers over many small tensors) would start a team that costs more than their work.
  constexpr size_t kOneThreadBytes = size_t{128} << 10;
  return largest_bytes <= kOneThreadBytes ? 1 : kernel_threads();
}

void apply_threads(int wanted) noexcept {
  static thread_local int applied = 0;
  static thread_local int team = 1;
  if (wanted > 0 && wanted != applied) {
    if (wanted > team) {
      // The worker is kept off the script's core; the threads of its team must not inherit that.
      device::AllCores all;
      std::vector<pid_t> members(wanted, 0);
#pragma omp parallel num_threads(wanted)
      members[omp_get_thread_num()] = gettid();
      team = wanted;
      std::erase_if(members, [](pid_t member) { return member == 0 || member == gettid(); });
      if (auto* queue = device::CommandQueue::of_this_worker()) queue->set_team(std::move(members));
    }
    if (auto* queue = device::CommandQueue::of_this_worker()) queue->note_team(wanted > 1);
    // Not at::set_num_threads: that also changes the default of threads that start later.
    omp_set_num_threads(wanted);
    applied = wanted;
  }
}

void apply_kernel_threads(size_t largest_bytes) { apply_threads(threads_for(largest_bytes)); }

size_t largest_tensor(const c10::Stack& values) {
  size_t largest = 0;
  for (const auto& value : values)
    for_each_tensor(value, [&](const at::Tensor& t) {
      if (t.defined())
        largest = std::max(largest, static_cast<size_t>(t.unsafeGetTensorImpl()->numel()) * t.itemsize());
    });
  return largest;
}

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
  if (c) {
    if (auto* next = Commands::next()) fetch_to_write(next);
    c->operands.clear();
    c->outputs.clear();
    c->numbers.clear();
  } else {
    c = new CallCommand();
    Commands::note_made();
  }
  c->entry_ = std::move(entry);
  c->device_ = &device;
  return c;
}

const char* CallCommand::name() const { return entry_->call->kernel->name().c_str(); }

void CallCommand::run() {
  device::MemoryPool::AccessScope access(device_->memory());
  CallRunner::of_worker(*device_).run(*entry_, operands.data(), numbers.data(), outputs.data());
}

void CallCommand::retire() { Commands::give(this); }

void BoxedCommand::run() {
  apply_kernel_threads(largest);
  device::MemoryPool::AccessScope access(device_.memory());
  KernelScope scope(device_.workspace(), planned.data(), planned.size(), /*record=*/false);
  kernel_.call_cpu(args);
  deliver();
}

void BoxedCommand::deliver() {
  size_t i = 0;
  // An output that the kernel put elsewhere may lie where another belongs: all leave by way of a copy.
  std::vector<std::pair<void*, std::vector<char>>> misplaced;
  for (const auto& value : args) {
    for_each_tensor(value, [&](const at::Tensor& t) {
      const int32_t storage = i < fresh.size() ? fresh[i] : -1;
      ++i;
      if (storage < 0) return;
      const auto& plan = planned[storage];
      TORCH_INTERNAL_ASSERT(
          t.defined() && t.storage().nbytes() == plan.nbytes, kernel_.name(), " returned ",
          t.defined() ? t.storage().nbytes() : 0, " bytes where ", plan.nbytes, " were expected from its operands");
      const char* data = static_cast<const char*>(t.storage().data());
      if (data != plan.ptr && plan.nbytes > 0) misplaced.emplace_back(plan.ptr, std::vector<char>(data, data + plan.nbytes));
    });
  }
  for (auto& [to, bytes] : misplaced) std::memcpy(to, bytes.data(), bytes.size());
  if (!misplaced.empty()) count(Counter::OutputsCopied, misplaced.size());
}

}  // namespace openhpu
