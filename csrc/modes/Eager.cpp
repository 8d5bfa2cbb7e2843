#include "modes/Eager.h"

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>

#include <cstring>
#include <mutex>

#include "runtime/HPUDevice.h"
#include "runtime/events.h"

namespace openhpu {
namespace {

std::mutex warnings_mutex;
std::vector<c10::Warning> warnings;
std::atomic<bool> has_warnings{false};

// Warnings of kernels belong to the script, not to the worker's stderr.
struct CollectWarnings final : c10::WarningHandler {
  void process(const c10::Warning& w) override {
    std::lock_guard<std::mutex> lock(warnings_mutex);
    if (warnings.size() < 64) warnings.push_back(w);
    has_warnings.store(true, std::memory_order_release);
  }
};

}  // namespace

void set_up_worker() {
  static CollectWarnings collect;
  static thread_local c10::InferenceMode no_autograd(true);
  c10::WarningUtils::set_warning_handler(&collect);
}

void emit_kernel_warnings() {
  if (!has_warnings.load(std::memory_order_acquire)) return;
  std::vector<c10::Warning> taken;
  {
    std::lock_guard<std::mutex> lock(warnings_mutex);
    taken.swap(warnings);
    has_warnings.store(false, std::memory_order_release);
  }
  for (auto& w : taken) c10::warn(w);
}

void apply_kernel_threads() {
  static thread_local int applied = 0;
  const int wanted = kernel_threads();
  if (wanted > 0 && wanted != applied) {
    at::set_num_threads(wanted);
    applied = wanted;
  }
}

void KernelCommand::run() {
  apply_kernel_threads();
  device::MemoryPool::AccessScope access(device_.memory());
  KernelScope scope(device_.workspace(), planned.data(), planned.size(), /*record=*/false);
  kernel_.call_cpu(args);
  deliver(args);
  args.clear();
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
        t.defined() && t.storage().nbytes() == plan.nbytes, kernel_.name(), " returned ",
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
