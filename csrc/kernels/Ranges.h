#pragma once

#include <ATen/core/Tensor.h>

namespace openhpu {

// Looks at what is copied to the device, if that matters: a Gaudi's memory holds int64 as int32 and float64 as float32.
// Throws where such a copy is refused (Difference::Int64Range, Difference::Float64Range).
void check_copied_range(const at::Tensor& src, c10::ScalarType dst);

}  // namespace openhpu
