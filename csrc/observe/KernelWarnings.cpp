#include "observe/KernelWarnings.h"

#include <c10/util/Exception.h>

#include <atomic>
#include <mutex>
#include <vector>

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

void collect_kernel_warnings() {
  static CollectWarnings collect;
  c10::WarningUtils::set_warning_handler(&collect);
}

CollectKernelWarnings::CollectKernelWarnings() : before_(c10::WarningUtils::get_warning_handler()) {
  collect_kernel_warnings();
}
CollectKernelWarnings::~CollectKernelWarnings() { c10::WarningUtils::set_warning_handler(before_); }

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
