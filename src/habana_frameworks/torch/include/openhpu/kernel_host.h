// What the core tells the libraries of GC_KERNEL_PATH about calls. This header includes nothing of PyTorch.
//
// A library may export
//   extern "C" OPENHPU_EXPORT void openhpu_kernel_host(const openhpu::KernelHost* host);
// The core calls it when it has loaded the library. An older core does not.
#pragma once

#include "openhpu/custom_kernel.h"

namespace openhpu {

struct KernelHost {
  uint32_t version;  // 1
  // Of each output of a call 1 if it is an operand that the operator reads and writes (`Tensor(a!)`, but no `out`): the
  // kernel may read its contents. Null: none is. What it returns stays valid until the process ends.
  const uint8_t* (*in_place)(const KernelCall& call);
};

using KernelHostEntry = void (*)(const KernelHost* host);
constexpr const char* kKernelHostEntry = "openhpu_kernel_host";

}  // namespace openhpu
