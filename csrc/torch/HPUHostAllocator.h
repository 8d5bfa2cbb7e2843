#pragma once

#include <c10/core/Allocator.h>

namespace openhpu {

// Pinned host memory. On this device "pinned" means memory that copies may read or write asynchronously; the
// allocator keeps freed blocks for reuse, so that a loader that pins every batch has no page faults.
c10::Allocator* pinned_allocator();
bool is_pinned_ptr(const void* ptr);

}  // namespace openhpu
