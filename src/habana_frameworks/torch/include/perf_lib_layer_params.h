// Params of the kernels of the vendor's library, as users' operators fill them. Only what public documents name is
// here. docs/custom-ops.md lists the guids that have a kernel.
#pragma once

#include <cstdint>

// A number that the kernel reads as its own dtype.
typedef union {
  int32_t i;
  float f;
} fint_t;

namespace ns_ReluKernel {
struct Params {
  fint_t threshold;  // replaces smaller elements' limit 0
};
}  // namespace ns_ReluKernel
