#pragma once

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Storage.h>

#include "device/device.h"

namespace openhpu {

// Memory that has several holders: a storage, and captured graphs. The last holder frees it. Memory that other
// processes hold too is the contents of a file without a name. The file lives as long as any process has it open or
// mapped. The memory is then given back in the order of the queue, because earlier commands may still write data that
// other processes are to see.
struct SharedBlock {
  SharedBlock(void* memory, int of_pool) : data(memory), pool(of_pool) {}
  ~SharedBlock();
  void* const data;
  const int pool;
  std::atomic<bool> watched{false};
  std::atomic<uint64_t> writes{0};  // commands issued that change it, from when it is watched
  bool in_order = false;            // given back in the order of the queue: a stream was recorded for it
  int file = -1;                    // descriptor, if it is shared with other processes
  void* block = nullptr;            // then: the pool's block, of which `data` is the first whole page
  size_t mapped = 0;                // bytes
};

// The object behind the DataPtr of an hpu storage.
struct HPUMemory {
  void* data = nullptr;
  size_t nbytes;
  c10::DeviceIndex device;  // index the tensor reports
  int pool;                 // index of the software device whose memory it is
  // The storage that this stands behind, as long as its memory is pending: assigned when it is needed (lazy mode),
  // `data` null until then. Counted, so that a flush in another thread can tell whether the storage is being destroyed.
  c10::weak_intrusive_ptr<c10::StorageImpl> owner = c10::weak_intrusive_ptr<c10::StorageImpl>::reclaim(nullptr);
  // The slot that this is in a graph being recorded; valid while that graph has the same number. 0: in none.
  std::atomic<uint64_t> graph{0};
  uint32_t slot = 0;
  // The last capture that met it, and its slot there; kMadeInCapture: none yet, but its contents are the capture's.
  static constexpr uint32_t kMadeInCapture = ~uint32_t{0};
  uint64_t capture = 0;
  uint32_t capture_slot = 0;
  // Set when captured graphs need the memory beside this storage; the last holder frees it.
  std::shared_ptr<SharedBlock> shared;
  std::atomic<SharedBlock*> watched{nullptr};  // the same, from when it is watched
  // The command that made the contents, as long as no other command may have written to them; 0: unknown. Who reads
  // them need not wait for commands that are queued behind it.
  std::atomic<uint64_t> made_by{0};
  // A stream was recorded: the block is not free before the commands that the queue has when the tensor dies.
  std::atomic<bool> in_order{false};
  // The operator whose results have this size because of values (recipes/Recompilation); 0: none, or nobody listens.
  uint32_t sized_by = 0;
  // The period of the compile-only mode in which an operator would have made its contents; 0: none (CompileOnly).
  uint32_t born = 0;
  // Others have the address, and may write at any time.
  std::atomic<bool> exposed{false};
  // Of small memory: another number for each operator that writes to it after it was made; 0: none did.
  std::atomic<uint64_t> version{0};
  // How it was made, if by a small operator: a SmallCall (call/SmallCall). Set before anything else knows the storage.
  std::shared_ptr<const void> small_call;

  static constexpr size_t kSmallBytes = 256;
  bool small() const noexcept { return nbytes <= kSmallBytes; }
  // Before an operator that writes to it is submitted or recorded.
  void begin_write() noexcept;
  // The command is in the queue that makes the contents, or, of small memory, that writes to them.
  void end_write(uint64_t sequence) noexcept {
    if (!exposed.load(std::memory_order_relaxed)) made_by.store(sequence, std::memory_order_release);
  }
  void expose() noexcept {
    exposed.store(true, std::memory_order_relaxed);
    made_by.store(0, std::memory_order_relaxed);
  }
  bool pending() const noexcept { return data == nullptr && nbytes > 0; }
};

c10::DeviceAllocator* hpu_allocator();

// Pinned host memory. On this device "pinned" means memory that copies may read or write asynchronously; the
// allocator keeps freed blocks for reuse, so that a loader that pins every batch has no page faults.
c10::Allocator* pinned_allocator();
bool is_pinned_ptr(const void* ptr);

// Host memory that a queued command needs. The worker must not drop the last reference to it, since a storage may
// own a Python object: finished commands hand it back here, and host threads release it at their next submission
// or synchronisation.
void return_to_host(c10::Storage storage);
void release_returned();

// Before a command gets the address of a storage's memory. The caller may write at any time, and so may whoever it
// gives the address to.
void require_memory(const c10::StorageImpl& storage);
// For a caller that only reads, or that calls `begin_write` itself.
void require_memory_to_read(const c10::StorageImpl& storage);

// Memory of `nbytes` on the given device. Throws c10::OutOfMemoryError.
c10::DataPtr allocate_on(c10::DeviceIndex index, size_t nbytes);
// A resizable storage with this memory, of the memory's device.
c10::intrusive_ptr<c10::StorageImpl> storage_over(c10::DataPtr memory, size_t nbytes);
// Gives a storage other memory.
void replace_memory(c10::StorageImpl& storage, c10::DataPtr memory, size_t nbytes);
// A storage whose memory is assigned when its address is requested (`Above::require_memory`).
c10::intrusive_ptr<c10::StorageImpl> make_pending_storage(c10::DeviceIndex index, size_t nbytes);
// The same for an existing storage, whose memory is released.
void make_pending(c10::StorageImpl& storage, c10::DeviceIndex index, size_t nbytes);
// For who is about to read a storage of device `d`, after `flush`: the command until which to wait.
uint64_t made_by(device::Device& d, const c10::StorageImpl& storage);
// Gives a pending storage its memory, from the device's pool. Throws c10::OutOfMemoryError.
void assign_memory(HPUMemory& memory);
// The same with memory that was allocated before. The storage must not go meanwhile.
void assign_memory(HPUMemory& memory, void* data) noexcept;
void* allocate_block(device::Device& d, size_t nbytes, uint32_t site = 0);
// Queues a copy within the device's memory, or to or from the host's, where `kept` keeps it.
void copy_in_order(
    device::Device& d, const char* name, void* to, const void* from, size_t nbytes, uint32_t site = 0,
    std::shared_ptr<void> kept = nullptr);
// Statistics of the device's memory in the script's order: the recording is handed over first, and memory that is
// promised to a storage counts as in use.
device::MemoryStats memory_stats_of(device::Device& d);
device::MemoryStats memory_stats_of(c10::DeviceIndex index);  // zeros and the limit where the device is not open
// The memory, with the caller as one more owner. Under the recorder's lock.
std::shared_ptr<SharedBlock> share_memory(HPUMemory& memory);
// A block whose first `nbytes` are those of a file (kernels/SharedMemory), which it takes over, or closes where it
// fails. Waits for the device.
std::shared_ptr<SharedBlock> map_block(device::Device& d, size_t nbytes, int file);
// A DataPtr of a new storage over such a block; `place_in` puts an existing storage there, without its contents, and
// returns the memory that it had, to be freed when nothing needs it. Under the recorder's lock.
c10::DataPtr make_mapped(c10::DeviceIndex index, size_t nbytes, std::shared_ptr<SharedBlock> block);
void* place_in(c10::StorageImpl& storage, std::shared_ptr<SharedBlock> block);
// The memory behind a storage; null when its DataPtr is not ours (external memory, no memory).
HPUMemory* memory_of(const c10::StorageImpl& storage);
// Counts the writes to it from now on. Under the recorder's lock.
void watch_memory(HPUMemory& memory);
// A command that changes a storage's contents is about to be issued.
void note_write(const c10::StorageImpl& storage);

}  // namespace openhpu
