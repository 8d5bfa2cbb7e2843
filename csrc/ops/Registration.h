#pragma once

namespace openhpu {
// Everything that must happen once when the library is loaded: allocator, kernels, worker set-up.
void load();
}  // namespace openhpu
