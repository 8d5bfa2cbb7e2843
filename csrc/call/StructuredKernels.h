#pragma once

#include <ATen/core/boxing/KernelFunction.h>

#include <string>

namespace openhpu {

// PyTorch's own description of a structured operator's results. The same C++ code computes it for the CPU kernel; here
// it runs on meta tensors. Null for operators that are not structured, and for those that take no time. It is not
// looked up by the key Meta, because torch puts Python kernels before it.
const c10::KernelFunction* structured_kernel_of(const std::string& name);

}  // namespace openhpu
