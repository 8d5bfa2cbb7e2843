#pragma once

#include <ATen/core/Generator.h>

namespace openhpu {

// Index -1: the current device.
const at::Generator& default_generator(c10::DeviceIndex index);
at::Generator new_generator(c10::DeviceIndex index);

// One seed from the given generator, or from the device's own. A generator of the CPU is allowed, because a Gaudi's
// generators are on the CPU. A generator of another device is PyTorch's error.
uint32_t draw_seed(const std::optional<at::Generator>& generator, c10::DeviceIndex index);

}  // namespace openhpu
