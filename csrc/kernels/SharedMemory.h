#pragma once

#include <c10/core/Storage.h>

// Storages whose memory several processes share. The memory is the contents of a file without a name (memfd), which
// each process maps into the memory of its device. The system counts the users of the file. It lives until the last of
// them has dropped it or has ended.
namespace openhpu {

// Returns the file behind a storage's memory. The storage owns the descriptor. The first call moves the contents into
// the file, so the address changes. Commands issued before are done when this returns. From then on the storage cannot
// be resized. Throws for memory that a captured graph holds, in a capture, and if the system has no file for it.
int share_storage(c10::StorageImpl& storage);
// The storage's file if it has one; -1: none.
int shared_file(const c10::StorageImpl& storage) noexcept;
// A storage of `nbytes` over such a file, of which it keeps a descriptor of its own.
c10::Storage open_shared_storage(int file, size_t nbytes, c10::DeviceIndex index);

}  // namespace openhpu
