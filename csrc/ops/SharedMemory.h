#pragma once

#include <c10/core/Storage.h>

// Storages whose memory several processes have. It is the contents of a file without a name (memfd), which has a place in
// the memory of each process's device. The system counts who has it: it lives until the last of them has dropped it or has
// ended, in whatever way.
namespace openhpu {

// The file behind a storage's memory; the descriptor stays the storage's. The first time its contents are moved there, so
// that its address changes. What was issued before is done when this returns. From then on the storage can't be resized.
// Throws for memory that a captured graph holds, in a capture, and where the system has no file for it.
int share_storage(c10::StorageImpl& storage);
// The storage's file if it has one; -1: none.
int shared_file(const c10::StorageImpl& storage) noexcept;
// A storage of `nbytes` over such a file, of which it keeps a descriptor of its own.
c10::Storage open_shared_storage(int file, size_t nbytes, c10::DeviceIndex index);

}  // namespace openhpu
