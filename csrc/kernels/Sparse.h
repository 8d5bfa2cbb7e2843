#pragma once

namespace openhpu {

// Sparse COO tensors: indices and values lie on the device; operators on them run on the host, as a CPU fallback.
void register_sparse_kernels();

}  // namespace openhpu
