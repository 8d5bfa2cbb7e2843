#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include "device/device.h"

namespace openhpu {

// Results that lie outside of the memory that the host knows them by. They may lie in the places of each other. So the
// code looks at all of them first. A result that could be overwritten is copied through a buffer.
class Misplaced {
 public:
  // `place` has the sizes of `result`.
  void add(at::Tensor place, at::Tensor result) { results_.push_back({std::move(place), std::move(result)}); }
  // A whole storage, byte for byte.
  void add(void* place, const c10::Storage& result);
  // Worker thread. Copies them, and counts them.
  void deliver(device::Device& device);

 private:
  struct Result {
    at::Tensor place, value;
  };
  c10::SmallVector<Result, 0> results_;
};

}  // namespace openhpu
