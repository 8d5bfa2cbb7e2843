#pragma once

#include <c10/util/Exception.h>

namespace openhpu {

// Warnings of kernels belong to the script, not to the worker's stderr: workers collect them, and host threads emit
// them when they wait for the device.
void collect_kernel_warnings();  // makes the calling (worker) thread collect
// The calling thread collects while it lives.
class CollectKernelWarnings {
 public:
  CollectKernelWarnings();
  ~CollectKernelWarnings();
  CollectKernelWarnings(const CollectKernelWarnings&) = delete;
  CollectKernelWarnings& operator=(const CollectKernelWarnings&) = delete;

 private:
  c10::WarningHandler* const before_;
};
void emit_kernel_warnings();  // and reports what kernels noted

}  // namespace openhpu
