#pragma once

#include <c10/util/Exception.h>

#include <atomic>
#include <cstdint>
#include <string>

// What operators met on the device and a script should hear of. The thread that runs an operator notes it. Host threads
// report it, as they report warnings of kernels, when they wait for the device.
namespace openhpu {

// Indices out of range (OPENHPU_OUT_OF_RANGE). Whether they are as on a Gaudi: a read gives zeros, a write is dropped.
// Else an error, as on PyTorch's CPU device.
inline std::atomic<bool> g_lenient_indices{true};
inline bool lenient_indices() noexcept { return g_lenient_indices.load(std::memory_order_relaxed); }

// The indices out of range of one call of an operator.
struct IndicesOutOfRange {
  int64_t count = 0;
  int64_t padding = 0;  // of these: -1, which programs use on purpose
  int64_t example = 0;  // one that is not -1, if there is any
  int64_t size = -1;    // of the dimension that it is an index of; -1: no example is known
};
void note_indices(const std::string& op, uint32_t site, const IndicesOutOfRange& found);

// Integers of 64 bits as on a Gaudi (OPENHPU_INT64=gaudi), which computes them in 32 bits: results wrap.
inline std::atomic<bool> g_narrow_int64{false};
inline bool narrow_int64() noexcept { return g_narrow_int64.load(std::memory_order_relaxed); }
// `overflows`: how many results of the operator changed.
void note_overflows(const std::string& op, uint32_t site, int64_t overflows);

// The operator read or computed numbers of float8_e4m3fn that a Gaudi 2 does not have (run/Float8).
void note_e4m3(const std::string& op, uint32_t site);

// Events since the last call, one for each operator and line, and a warning for each line with indices out of range
// that has had none.
void report_kernels();

// Warnings of kernels belong to the script, not to the worker's stderr: workers collect them, and host threads emit
// them when they wait for the device.
c10::WarningHandler* kernel_warnings();  // collects those of the threads that have it
void emit_kernel_warnings();             // and reports what kernels noted

// While it lives, nobody hears the warnings of the calling thread.
class NoWarnings final : c10::WarningHandler {
  void process(const c10::Warning&) override {}
  c10::WarningUtils::WarningHandlerGuard guard_{this};

 public:
  NoWarnings() = default;
};

}  // namespace openhpu
