#pragma once

namespace openhpu {

// Strided nested tensors (torch.nested, layout=torch.strided): their components lie in one tensor on the device.
void register_nested_kernels();

}  // namespace openhpu
