#pragma once

#include "run/UserKernel.h"

namespace openhpu {

// Runs a kernel on copies of its operands, each between canaries: bytes of a known pattern. Throws
// std::runtime_error, which names the operand, if the kernel wrote beside one or into an input.
void run_checked(const UserKernel& kernel, const KernelCall& call);

}  // namespace openhpu
