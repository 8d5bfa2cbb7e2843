#pragma once

namespace openhpu {
// The generic kernel for all operators that run on aliases, except those with a kernel of their own.
void register_op_kernels();
}  // namespace openhpu
