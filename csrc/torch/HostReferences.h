#pragma once

#include <c10/core/Storage.h>

namespace openhpu {

// Host memory that a queued command needs. The worker must not drop the last reference to it, since a storage may
// own a Python object: finished commands hand it back here, and host threads release it at their next submission
// or synchronisation.
void return_to_host(c10::Storage storage);
void release_returned();

}  // namespace openhpu
