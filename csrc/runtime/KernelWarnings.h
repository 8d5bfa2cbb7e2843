#pragma once

namespace openhpu {

// Warnings of kernels belong to the script, not to the worker's stderr: workers collect them, and host threads emit
// them when they wait for the device.
void collect_kernel_warnings();  // makes the calling (worker) thread collect
void emit_kernel_warnings();

}  // namespace openhpu
