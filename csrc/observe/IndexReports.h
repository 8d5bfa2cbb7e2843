#pragma once

#include <cstdint>
#include <string>

// Indices out of range (OPENHPU_OUT_OF_RANGE). The thread that runs an operator notes them. Host threads report them,
// as they report warnings of kernels, when they wait for the device.
namespace openhpu {

// Whether they are as on a Gaudi: a read gives zeros, a write is dropped. Else an error, as on PyTorch's CPU device.
bool lenient_indices() noexcept;
void set_lenient_indices(bool on) noexcept;

// The indices out of range of one call of an operator.
struct IndicesOutOfRange {
  int64_t count = 0;
  int64_t padding = 0;  // of these: -1, which programs use on purpose
  int64_t example = 0;  // one that is not -1, if there is any
  int64_t size = -1;    // of the dimension that it is an index of; -1: no example is known
};
void note_indices(const std::string& op, uint32_t site, const IndicesOutOfRange& found);

// Events since the last call, one for each operator and line, and a warning for each line that has had none.
void report_indices();

}  // namespace openhpu
