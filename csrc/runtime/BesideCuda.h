#pragma once

namespace openhpu {

// PyTorch has one accelerator for a process. `at::getAccelerator` asks the hooks of every device type `isBuilt()` and
// fails where two say yes. Hence:

// From here on hpu's hooks say yes. In PyTorch's build for CUDA, CUDA's hooks say no instead; all else they answer as
// before, so that a GPU stays usable. Does nothing to CUDA's hooks in another build. Throws c10::Error, and leaves
// everything as it was, where PyTorch is not as expected. Opens no device of either kind.
void become_accelerator();

// Undoes that: where the rest of hpu's registration fails, PyTorch is as it was.
void leave_accelerator();

// What hpu's hooks answer to `isBuilt()`.
bool is_accelerator();

}  // namespace openhpu
