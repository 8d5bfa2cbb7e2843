#include "observe/KernelWarnings.h"

#include "observe/KernelReports.h"

namespace openhpu {
namespace {

std::mutex warnings_mutex;
std::vector<c10::Warning> warnings;
std::atomic<bool> has_warnings{false};

struct CollectWarnings final : c10::WarningHandler {
  void process(const c10::Warning& w) override {
    std::lock_guard<std::mutex> lock(warnings_mutex);
    if (warnings.size() < 64) warnings.push_back(w);
    has_warnings.store(true, std::memory_order_release);
  }
};

}  // namespace

c10::WarningHandler* kernel_warnings() {
  static CollectWarnings collect;
  return &collect;
}

void emit_kernel_warnings() {
  report_kernels();
  if (!has_warnings.load(std::memory_order_acquire)) return;
  std::vector<c10::Warning> taken;
  {
    std::lock_guard<std::mutex> lock(warnings_mutex);
    taken.swap(warnings);
    has_warnings.store(false, std::memory_order_release);
  }
  for (auto& w : taken) c10::warn(w);
}

}  // namespace openhpu
