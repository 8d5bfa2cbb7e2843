#pragma once

#include <ATen/core/boxing/KernelFunction.h>

#include <string>

namespace openhpu {

// PyTorch's own description of a structured operator's results: the C++ code that computes it for the CPU's kernel, on
// meta tensors. Null for operators that are not structured, and for those that take no time. Not found by the key Meta:
// torch puts kernels in Python in front of these.
const c10::KernelFunction* structured_kernel_of(const std::string& name);

}  // namespace openhpu
