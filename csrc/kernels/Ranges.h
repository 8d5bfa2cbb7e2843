#pragma once

#include <ATen/core/Tensor.h>

namespace openhpu {

// Copies to the device of values that a Gaudi's memory cannot hold: it stores int64 as int32 and float64 as float32.
enum class OutOfRangeCopies : int { Pass, Note, Refuse };
void set_out_of_range_copies(OutOfRangeCopies integers, OutOfRangeCopies floats) noexcept;

// Looks at what is copied to the device, if that matters. Throws where such a copy is refused.
void check_copied_range(const at::Tensor& src, c10::ScalarType dst);

}  // namespace openhpu
