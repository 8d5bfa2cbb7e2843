#include "modes/Eager.h"

#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>

#include <omp.h>

#include <cstring>

#include "ops/Alias.h"
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
  if (wanted > 0 && wanted != applied) {
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
  std::atomic<KernelCommand*> head{nullptr};
  void push(KernelCommand* c) {
    c->next_ = head.load(std::memory_order_relaxed);
    while (!head.compare_exchange_weak(c->next_, c, std::memory_order_release, std::memory_order_relaxed)) {
    }
  }
};

namespace {
Finished finished;
// Commands that this thread took back. Left behind when a thread ends: they are few, and the process may be ending.
thread_local KernelCommand* reusable = nullptr;
constexpr size_t kKeptAliases = 32;
}  // namespace

KernelCommand* KernelCommand::acquire(const OpKernel& kernel, device::Device& device) {
  if (!reusable) reusable = finished.head.exchange(nullptr, std::memory_order_acquire);
  KernelCommand* c = reusable;
  if (c) {
    reusable = c->next_;
    c->reset();
  } else {
    c = new KernelCommand();
  }
  c->kernel_ = &kernel;
  c->device_ = &device;
  return c;
}

void KernelCommand::reset() {
  args.clear();
  kept_.clear();
  planned.clear();
  fresh.clear();
  largest = 0;
  used_ = 0;
  if (aliases_.size() > kKeptAliases) aliases_.resize(kKeptAliases);
}

at::Tensor KernelCommand::alias(const at::Tensor& t) {
  const auto& source = *t.unsafeGetTensorImpl();
  auto storage = companion_storage(*source.unsafe_storage().unsafeGetStorageImpl());
  const bool special = source.is_conj() || source.is_neg() || source.is_wrapped_number();
  if (C10_LIKELY(used_ < aliases_.size() && !special)) {
    auto& slot = aliases_[used_];
    if (slot.unique()) {
      ++used_;
      slot->set_storage_and_dtype(c10::Storage(std::move(storage)), source.dtype());
      slot->set_sizes_and_strides(source.sizes(), source.strides(), source.storage_offset());
      return at::Tensor(slot);
    }
    // A kernel kept the alias: leave it to that kernel.
    slot = cpu_alias_over(source, std::move(storage)).unsafeReleaseIntrusivePtr();
    ++used_;
    return at::Tensor(slot);
  }
  auto fresh_alias = cpu_alias_over(source, std::move(storage));
  if (special) {
    keep(fresh_alias);
  } else {
    aliases_.push_back(fresh_alias.getIntrusivePtr());
    ++used_;
  }
  return fresh_alias;
}

void KernelCommand::run() {
  apply_kernel_threads(largest);
  device::MemoryPool::AccessScope access(device_->memory());
  KernelScope scope(device_->workspace(), planned.data(), planned.size(), /*record=*/false);
  kernel_->call_cpu(args);
  deliver(args);
  args.clear();
}

void KernelCommand::retire() {
  // After an error the stack still holds what the kernel was given or made.
  args.clear();
  finished.push(this);
}

void KernelCommand::deliver(const c10::Stack& results) {
  if (planned.empty()) return;
  size_t i = 0;
  bool missed = false;
  auto check = [&](const at::Tensor& t) {
    const int32_t storage = i < fresh.size() ? fresh[i] : -1;
    ++i;
    if (storage < 0) return;
    const auto& plan = planned[storage];
    TORCH_INTERNAL_ASSERT(
        t.defined() && t.storage().nbytes() == plan.nbytes, kernel_->name(), " returned ",
        t.defined() ? t.storage().nbytes() : 0, " bytes where ", plan.nbytes, " were expected from its operands");
    missed |= t.storage().data() != plan.ptr && plan.nbytes > 0;
  };
  for (const auto& value : results) for_each_tensor(value, check);
  if (C10_LIKELY(!missed)) return;
  // A kernel whose order of allocations varies: bring every output to its place by way of its own copy, because one
  // output may lie where another belongs.
  std::vector<std::pair<const PlannedOutput*, std::vector<char>>> parts;
  i = 0;
  auto take = [&](const at::Tensor& t) {
    const int32_t storage = i < fresh.size() ? fresh[i] : -1;
    ++i;
    if (storage < 0 || planned[storage].nbytes == 0) return;
    const char* data = static_cast<const char*>(t.storage().data());
    parts.emplace_back(&planned[storage], std::vector<char>(data, data + planned[storage].nbytes));
  };
  for (const auto& value : results) for_each_tensor(value, take);
  for (auto& [plan, bytes] : parts) std::memcpy(plan->ptr, bytes.data(), bytes.size());
  count(Counter::OutputsCopied, parts.size());
}

}  // namespace openhpu
