#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

namespace openhpu::device {

// The ten statistics of Gaudi's memory manager, in bytes or counts.
struct MemoryStats {
  uint64_t limit = 0;                // "Limit": capacity of the device
  uint64_t in_use = 0;               // "InUse": bytes of all live blocks
  uint64_t max_in_use = 0;           // "MaxInUse": peak of in_use since the last reset
  uint64_t num_allocs = 0;           // "NumAllocs": allocations since the last reset
  uint64_t num_frees = 0;            // "NumFrees"
  uint64_t active_allocs = 0;        // "ActiveAllocs": live blocks
  uint64_t max_alloc_size = 0;       // "MaxAllocSize": largest single allocation
  uint64_t total_system_allocs = 0;  // "TotalSystemAllocs": reservations asked of the operating system
  uint64_t total_system_frees = 0;   // "TotalSystemFrees"
  uint64_t total_active_allocs = 0;  // "TotalActiveAllocs": reservations held
};

class OutOfMemory : public std::runtime_error {
 public:
  explicit OutOfMemory(const std::string& text, bool machine = false) : std::runtime_error(text), of_machine(machine) {}
  const bool of_machine;  // the pool has room, the machine has no memory to put behind it: `trim` may help
};

// Device memory: one address range, reserved once, handed out as blocks.
//
// Blocks are multiples of kAlignment, chosen best-fit (the smallest free block that is large enough, the lowest
// address among equals), split when larger than needed, and coalesced with free neighbours when freed. The
// bookkeeping lies outside the range, so that the range can be protected. All functions are thread-safe.
class MemoryPool {
 public:
  static constexpr size_t kAlignment = 128;

  // Reserves `capacity` bytes (rounded up to pages) of address space; pages are backed when first touched, and
  // kept for reuse until `trim`. `name` ("HPU 0") is used in messages. `watchful`: blocks are handed out only where the
  // machine has memory for their pages, see Backing.
  MemoryPool(std::string name, size_t capacity, bool watchful = false);
  ~MemoryPool();

  // Returns an aligned block of at least `nbytes` (0 is treated as 1). Throws OutOfMemory, whose text starts
  // "FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed" and says size asked, in use, limit, largest free block, or what
  // the machine has left.
  void* allocate(size_t nbytes);

  // Gives the block at `ptr` back. Throws std::invalid_argument for an address that is no live block.
  void free(void* ptr);

  // Maps the first `bytes` of a file over the memory at `at`, which must be whole pages of a live block. All processes
  // that map the file see each other's writes there. No command may be using these pages. Throws std::runtime_error if
  // the system refuses.
  void map_file(void* at, size_t bytes, int file);
  // Gives the block memory of its own again, without contents. Returns false if the system refuses. Then the block must
  // not be freed.
  bool unmap_file(void* at, size_t bytes) noexcept;

  // Bytes of the live block that starts at `ptr` (rounded size); 0 if there is none.
  size_t block_size(const void* ptr) const;

  // Whether `ptr` lies in the reserved range.
  bool contains(const void* ptr) const noexcept { return reinterpret_cast<uintptr_t>(ptr) - base_ < reserved_; }

  MemoryStats stats() const;
  void reset_peak();         // max_in_use := in_use, max_alloc_size := 0
  void reset_accumulated();  // num_allocs, num_frees, total_system_* := 0

  // Returns the pages of free blocks to the operating system (torch.hpu.empty_cache). Drain the queue first: blocks
  // freed by the host may still be used by commands that wait there.
  void trim();

  // For tests: of the allocations from now on the `first`-th and the `times - 1` after it fail, as if the pool were
  // full. 0: none does. Returns how many have failed since the last call.
  uint64_t fail_allocations(uint64_t first, uint64_t times = 1);

  // Debug mode: while enabled, the range is inaccessible except inside AccessScope, so that a host access
  // outside a kernel crashes at the spot. Scopes nest and may be held by several threads at once.
  void set_protection(bool enabled);
  bool protection() const noexcept;

  class AccessScope {
   public:
    explicit AccessScope(MemoryPool& pool);
    ~AccessScope();
    AccessScope(const AccessScope&) = delete;
    AccessScope& operator=(const AccessScope&) = delete;

   private:
    MemoryPool* pool_;  // null when protection is off
  };

 private:
  struct Impl;
  bool replace_pages(void* at, size_t bytes, int flags, int file) noexcept;
  uintptr_t base_ = 0;
  size_t reserved_ = 0;
  std::unique_ptr<Impl> impl_;
};

}  // namespace openhpu::device
