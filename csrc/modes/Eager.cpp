#include "modes/Eager.h"

#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>

#include <omp.h>
#include <unistd.h>

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

// Finished commands: pushed by workers, taken all at once by a host thread.
struct Finished {
  std::atomic<CallCommand*> head{nullptr};
  void push(CallCommand* c) {
    c->next_ = head.load(std::memory_order_relaxed);
    while (!head.compare_exchange_weak(c->next_, c, std::memory_order_release, std::memory_order_relaxed)) {
    }
  }
};

namespace {
Finished finished;
// Commands that this thread took back. Left behind when a thread ends: they are few, and the process may be ending.
thread_local CallCommand* reusable = nullptr;
// How many commands this thread made. It takes finished ones back only when there are so many: they come many at a time
// then, rather than one by one while the worker puts the next one there.
thread_local size_t made = 0;
constexpr size_t kReserve = 16;

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
  if (!reusable && made >= kReserve) reusable = finished.head.exchange(nullptr, std::memory_order_acquire);
  CallCommand* c = reusable;
  if (c) {
    reusable = c->next_;
    if (reusable) fetch_to_write(reusable);
    c->operands.clear();
    c->outputs.clear();
    c->numbers.clear();
  } else {
    c = new CallCommand();
    ++made;
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

void CallCommand::retire() { finished.push(this); }

void BoxedCommand::run() {
  device::MemoryPool::AccessScope access(device_.memory());
  CallRunner::of_worker(device_).run(*entry_, args, outputs.data());
}

}  // namespace openhpu
