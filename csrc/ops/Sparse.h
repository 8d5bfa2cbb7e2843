#pragma once

#include <ATen/core/Tensor.h>

namespace openhpu {

// A sparse COO CPU tensor whose indices and values are copied to the device.
at::Tensor adopt_sparse_result(const at::Tensor& cpu, c10::DeviceIndex index);

void register_sparse_kernels();

}  // namespace openhpu
