#pragma once

#include <c10/util/Exception.h>

namespace openhpu {

// Warnings of kernels belong to the script, not to the worker's stderr: workers collect them, and host threads emit
// them when they wait for the device.
c10::WarningHandler* kernel_warnings();  // collects those of the threads that have it
void emit_kernel_warnings();  // and reports what kernels noted

// While it lives, nobody hears the warnings of the calling thread.
class NoWarnings final : c10::WarningHandler {
  void process(const c10::Warning&) override {}
  c10::WarningUtils::WarningHandlerGuard guard_{this};

 public:
  NoWarnings() = default;
};

}  // namespace openhpu
