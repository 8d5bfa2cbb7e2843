#pragma once

namespace openhpu {

// PyTorch has one accelerator for each process. `at::getAccelerator` asks the hooks of every device type `isBuilt()`
// and fails if two of them return true. Hence:

// From here on hpu's hooks return true. In PyTorch's build for CUDA, CUDA's hooks return false. Their other answers
// stay the same, so a GPU stays usable. In another build this does nothing to CUDA's hooks. If PyTorch is not as
// expected, it throws c10::Error and changes nothing. It opens no device.
void become_accelerator();

// Undoes this if the rest of hpu's registration fails.
void leave_accelerator();

// The answer of hpu's hooks to `isBuilt()`.
bool is_accelerator();

}  // namespace openhpu
