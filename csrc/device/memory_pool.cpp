#include "device/memory_pool.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <optional>

#include "device/backing.h"
#include "device/blocks.h"

namespace openhpu::device {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

size_t round_up(size_t value, size_t to) { return (value + to - 1) / to * to; }

size_t page_size() {
  static const size_t size = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

// A system without them is merely slower. With pages of 16 or 64 KiB a huge page has 32 or 512 MiB, which one touch
// would back.
void use_huge_pages(void* at, size_t bytes) {
  if (page_size() == 4096) ::madvise(at, bytes, MADV_HUGEPAGE);
}

std::string with_unit(uint64_t bytes) {
  char text[64];
  std::snprintf(
      text, sizeof text, "%llu (%.2f MB)", static_cast<unsigned long long>(bytes),
      static_cast<double>(bytes) / (1 << 20));
  return text;
}

}  // namespace

struct MemoryPool::Impl {
  explicit Impl(std::string pool_name) : name(std::move(pool_name)), free_blocks(kAlignment) {}

  std::string name;
  void* mapping = nullptr;
  size_t mapping_bytes = 0;

  mutable std::mutex mutex;  // guards what follows, up to the next mutex
  Block* first = nullptr;
  FreeBlocks free_blocks;
  BlockTable live_blocks;
  BlockSlab descriptors;
  MemoryStats stats;
  uint64_t first_fault = 0, faults = 0;  // which allocations fail, for tests
  uint64_t asked = 0, injected = 0;      // allocations since then, and those that failed
  std::optional<Backing> backing;        // of a watchful pool

  std::mutex protection_mutex;
  std::atomic<bool> is_protected{false};
  unsigned scopes = 0;

  bool fails() noexcept {
    const bool fault = ++asked >= first_fault && asked - first_fault < faults;
    injected += fault;
    return fault;
  }

  // `machine`: why the machine has no memory left; empty if the pool alone is full.
  std::string out_of_memory_text(size_t nbytes, const std::string& machine = {}) const {
    return "FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed for size::" + with_unit(nbytes) + " on " + name +
           ": in use " + with_unit(stats.in_use) + " in " + std::to_string(stats.active_allocs) + " blocks, limit " +
           with_unit(stats.limit) + ", largest free block " + with_unit(free_blocks.largest()) +
           (machine.empty() ? ". Use smaller batches, free tensors, or raise OPENHPU_MEMORY_GB."
                            : "; " + machine + ". Use smaller batches, free tensors, or end other programs.");
  }

  // A thread may fork while another holds a pool's mutex, which in the child would stay locked for ever: there,
  // freeing an inherited tensor would hang. So the mutexes of all pools are held across a fork.
  struct AllPools {
    std::mutex mutex;
    std::vector<Impl*> pools;
  };
  static AllPools& all_pools() {
    static AllPools* all = [] {
      pthread_atfork(
          [] {
            all_pools().mutex.lock();
            for (Impl* pool : all_pools().pools) pool->mutex.lock();
            Backing::lock_all();
          },
          unlock_all, unlock_all);
      return new AllPools;
    }();
    return *all;
  }
  static void unlock_all() {
    Backing::unlock_all();
    for (Impl* pool : all_pools().pools) pool->mutex.unlock();
    all_pools().mutex.unlock();
  }
};

MemoryPool::MemoryPool(std::string name, size_t capacity, bool watchful)
    : impl_(std::make_unique<Impl>(std::move(name))) {
  // Aligned to huge pages, which a random mapping address is not.
  if (capacity > SIZE_MAX - 2 * kHugePage) throw std::invalid_argument(impl_->name + ": capacity is too large");
  reserved_ = round_up(std::max<size_t>(capacity, 1), page_size());
  impl_->mapping_bytes = reserved_ + kHugePage;
  impl_->mapping =
      ::mmap(nullptr, impl_->mapping_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (impl_->mapping == MAP_FAILED) {
    throw std::runtime_error(
        "cannot reserve " + with_unit(reserved_) + " of address space for the memory of " + impl_->name + ": " +
        std::strerror(errno) + ". Choose less with OPENHPU_MEMORY_GB, or raise `ulimit -v`.");
  }
  base_ = round_up(reinterpret_cast<uintptr_t>(impl_->mapping), kHugePage);
  use_huge_pages(reinterpret_cast<void*>(base_), reserved_);

  Block* whole = impl_->descriptors.make();
  *whole = Block{};
  whole->address = base_;
  whole->bytes = reserved_;
  impl_->first = whole;
  impl_->free_blocks.insert(whole);
  impl_->stats.limit = reserved_;
  impl_->stats.total_system_allocs = 1;
  impl_->stats.total_active_allocs = 1;
  if (watchful) impl_->backing.emplace(base_, reserved_);

  std::lock_guard lock(Impl::all_pools().mutex);
  Impl::all_pools().pools.push_back(impl_.get());
}

MemoryPool::~MemoryPool() {
  {
    std::lock_guard lock(Impl::all_pools().mutex);
    std::erase(Impl::all_pools().pools, impl_.get());
  }
  ::munmap(impl_->mapping, impl_->mapping_bytes);
}

void* MemoryPool::allocate(size_t nbytes) {
  Impl& impl = *impl_;
  std::lock_guard lock(impl.mutex);
  // The first comparison also keeps the rounding from overflowing.
  const size_t bytes = nbytes <= reserved_ ? round_up(std::max<size_t>(nbytes, 1), kAlignment) : 0;
  Block* block = bytes ? impl.free_blocks.best_fit(bytes) : nullptr;
  if (impl.faults > 0 && impl.fails()) [[unlikely]]
    block = nullptr;
  if (!block) throw OutOfMemory(impl.out_of_memory_text(nbytes));

  // What can throw comes before what changes the pool.
  const size_t offset = block->address - base_;
  if (impl.backing && !impl.backing->covers(offset, offset + bytes)) [[unlikely]] {
    const std::string refusal = impl.backing->promise(offset, offset + bytes);
    if (!refusal.empty()) throw OutOfMemory(impl.out_of_memory_text(nbytes, refusal), /*machine=*/true);
  }
  impl.descriptors.prepare();

  impl.free_blocks.remove(block);
  if (block->bytes > bytes) {
    Block* rest = impl.descriptors.make();
    rest->address = block->address + bytes;
    rest->bytes = block->bytes - bytes;
    rest->before = block;
    rest->after = block->after;
    if (rest->after) rest->after->before = rest;
    block->after = rest;
    block->bytes = bytes;
    impl.free_blocks.insert(rest);
  }
  impl.live_blocks.insert(block);

  MemoryStats& stats = impl.stats;
  stats.in_use += bytes;
  stats.max_in_use = std::max(stats.max_in_use, stats.in_use);
  stats.max_alloc_size = std::max<uint64_t>(stats.max_alloc_size, bytes);
  ++stats.num_allocs;
  ++stats.active_allocs;
  return reinterpret_cast<void*>(block->address);
}

void MemoryPool::free(void* ptr) {
  Impl& impl = *impl_;
  std::lock_guard lock(impl.mutex);
  Block* block = impl.live_blocks.take(reinterpret_cast<uintptr_t>(ptr));
  if (!block) {
    char text[64];
    std::snprintf(text, sizeof text, "%p", ptr);
    throw std::invalid_argument(
        impl.name + ": no live block starts at " + text +
        (contains(ptr) ? " (freed twice, or an address inside a block)"
                       : " (the address is not in this device's memory)"));
  }
  impl.stats.in_use -= block->bytes;
  ++impl.stats.num_frees;
  --impl.stats.active_allocs;

  // The left neighbour's descriptor swallows the right one's.
  auto absorb = [&](Block* left, Block* right) {
    left->bytes += right->bytes;
    left->after = right->after;
    if (left->after) left->after->before = left;
    impl.descriptors.recycle(right);
  };
  if (Block* after = block->after; after && after->free) {
    impl.free_blocks.remove(after);
    absorb(block, after);
  }
  if (Block* before = block->before; before && before->free) {
    impl.free_blocks.remove(before);
    absorb(before, block);
    block = before;
  }
  impl.free_blocks.insert(block);
}

bool MemoryPool::replace_pages(void* at, size_t bytes, int flags, int file) noexcept {
  std::lock_guard lock(impl_->protection_mutex);
  const bool closed = impl_->is_protected.load(std::memory_order_relaxed) && impl_->scopes == 0;
  if (::mmap(at, bytes, closed ? PROT_NONE : PROT_READ | PROT_WRITE, flags | MAP_FIXED, file, 0) == MAP_FAILED)
    return false;
  use_huge_pages(at, bytes);
  return true;
}

void MemoryPool::map_file(void* at, size_t bytes, int file) {
  if (replace_pages(at, bytes, MAP_SHARED, file)) return;
  const int error = errno;
  std::string text = impl_->name + ": cannot map " + with_unit(bytes) + " of shared memory: " + std::strerror(error);
  if (error == ENOMEM) text += ". Share fewer tensors at a time, or raise the system's vm.max_map_count";
  throw std::runtime_error(text);
}

bool MemoryPool::unmap_file(void* at, size_t bytes) noexcept {
  if (!replace_pages(at, bytes, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1)) return false;
  std::lock_guard lock(impl_->mutex);
  const auto begin = reinterpret_cast<uintptr_t>(at) - base_;
  if (impl_->backing) impl_->backing->forget(begin, begin + bytes);
  return true;
}

size_t MemoryPool::block_size(const void* ptr) const {
  std::lock_guard lock(impl_->mutex);
  const Block* block = impl_->live_blocks.find(reinterpret_cast<uintptr_t>(ptr));
  return block ? block->bytes : 0;
}

MemoryStats MemoryPool::stats() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->stats;
}

void MemoryPool::reset_peak() {
  std::lock_guard lock(impl_->mutex);
  impl_->stats.max_in_use = impl_->stats.in_use;
  impl_->stats.max_alloc_size = 0;
}

void MemoryPool::reset_accumulated() {
  std::lock_guard lock(impl_->mutex);
  impl_->stats.num_allocs = 0;
  impl_->stats.num_frees = 0;
  impl_->stats.total_system_allocs = 0;
  impl_->stats.total_system_frees = 0;
}

void MemoryPool::trim() {
  std::lock_guard lock(impl_->mutex);
  for (const Block* block = impl_->first; block; block = block->after) {
    if (!block->free) continue;
    const uintptr_t begin = round_up(block->address, page_size());
    const uintptr_t end = (block->address + block->bytes) / page_size() * page_size();
    if (begin >= end) continue;
    ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
    if (impl_->backing) impl_->backing->forget(begin - base_, end - base_);
  }
}

uint64_t MemoryPool::fail_allocations(uint64_t first, uint64_t times) {
  std::lock_guard lock(impl_->mutex);
  impl_->first_fault = first;
  impl_->faults = first > 0 ? times : 0;
  impl_->asked = 0;
  return std::exchange(impl_->injected, 0);
}

void MemoryPool::set_protection(bool enabled) {
  std::lock_guard lock(impl_->protection_mutex);
  if (impl_->is_protected.load(std::memory_order_relaxed) == enabled) return;
  const int access = enabled && impl_->scopes == 0 ? PROT_NONE : PROT_READ | PROT_WRITE;
  if (::mprotect(reinterpret_cast<void*>(base_), reserved_, access) != 0) {
    throw std::runtime_error(impl_->name + ": cannot change the protection of device memory: " + std::strerror(errno));
  }
  impl_->is_protected.store(enabled, std::memory_order_release);
}

bool MemoryPool::protection() const noexcept { return impl_->is_protected.load(std::memory_order_acquire); }

MemoryPool::AccessScope::AccessScope(MemoryPool& pool) : pool_(pool.protection() ? &pool : nullptr) {
  if (!pool_) return;
  Impl& impl = *pool_->impl_;
  std::lock_guard lock(impl.protection_mutex);
  if (impl.scopes++ == 0) {
    ::mprotect(reinterpret_cast<void*>(pool_->base_), pool_->reserved_, PROT_READ | PROT_WRITE);
  }
}

MemoryPool::AccessScope::~AccessScope() {
  if (!pool_) return;
  Impl& impl = *pool_->impl_;
  std::lock_guard lock(impl.protection_mutex);
  if (--impl.scopes == 0 && impl.is_protected.load(std::memory_order_relaxed)) {
    ::mprotect(reinterpret_cast<void*>(pool_->base_), pool_->reserved_, PROT_NONE);
  }
}

}  // namespace openhpu::device
