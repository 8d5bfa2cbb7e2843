#include "runtime/KernelMemory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>

#include <array>
#include <atomic>

#include "runtime/HPUDevice.h"

namespace openhpu {
namespace {

thread_local KernelScope* tls_scope = nullptr;

struct Pools {
  device::MemoryPool* memory;
  device::MemoryPool* workspace;
};
std::array<Pools, kMaxDevices> pools;
std::atomic<int> pool_count{0};
c10::Allocator* base_allocator = nullptr;
c10::DeleterFnPtr base_delete = nullptr;

void release(void* ptr) {
  const int n = pool_count.load(std::memory_order_acquire);
  for (int i = 0; i < n; ++i) {
    if (pools[i].workspace->contains(ptr)) {
      pools[i].workspace->free(ptr);
      return;
    }
    if (pools[i].memory->contains(ptr)) return;
  }
  base_delete(ptr);
}

// One deleter for all CPU memory, whichever allocator it came from: PyTorch compares an allocation's deleter with
// its allocator's raw_deleter() to tell plain memory from wrapped memory.
struct KernelAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t nbytes) override {
    if (C10_UNLIKELY(tls_scope != nullptr)) {
      if (void* ptr = tls_scope->allocate(nbytes)) return {ptr, ptr, &release, c10::Device(c10::kCPU)};
    }
    auto ptr = base_allocator->allocate(nbytes);
    // The base allocator returns null memory for zero bytes, with a deleter of its own.
    if (ptr.get_deleter() == base_delete) (void)ptr.compare_exchange_deleter(base_delete, &release);
    return ptr;
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* dest, const void* src, std::size_t count) const override {
    base_allocator->copy_data(dest, src, count);
  }
};

}  // namespace

KernelScope::KernelScope(device::MemoryPool& workspace, const PlannedOutput* planned, size_t count, bool record)
    : workspace_(workspace), planned_(planned), planned_count_(count), record_(record), outer_(tls_scope) {
  tls_scope = this;
}

KernelScope::~KernelScope() { tls_scope = outer_; }

void* KernelScope::allocate(size_t nbytes) {
  const uint32_t ordinal = next_++;
  void* ptr = nullptr;
  for (; next_planned_ < planned_count_ && planned_[next_planned_].ordinal <= ordinal; ++next_planned_) {
    const auto& plan = planned_[next_planned_];
    if (plan.ordinal == ordinal && plan.nbytes == nbytes) ptr = plan.ptr;
  }
  if (!ptr && nbytes > 0) {
    try {
      ptr = workspace_.allocate(nbytes);
    } catch (const device::OutOfMemory& e) {
      TORCH_CHECK_WITH(OutOfMemoryError, false, e.what());
    }
  }
  if (record_) log_.push_back(ptr);
  return ptr;
}

int64_t KernelScope::ordinal_of(const void* ptr) {
  constexpr size_t kSearched = 64;
  if (log_.size() > kSearched) {
    if (last_.empty())
      for (size_t i = 0; i < log_.size(); ++i) last_[log_[i]] = i;
    const auto found = last_.find(ptr);
    return found == last_.end() ? -1 : static_cast<int64_t>(found->second);
  }
  for (size_t i = log_.size(); i-- > 0;)
    if (log_[i] == ptr) return static_cast<int64_t>(i);
  return -1;
}

void install_kernel_allocator() {
  base_allocator = c10::GetCPUAllocator();
  base_delete = base_allocator->raw_deleter();
  TORCH_CHECK(base_delete, "The CPU allocator in force has no raw deleter; openhpu can't stand in front of it.");
  static KernelAllocator* allocator = new KernelAllocator();  // leaked: CPU tensors outlive static destructors
  c10::SetCPUAllocator(allocator, /*priority=*/100);
}

void register_kernel_pools(device::MemoryPool& memory, device::MemoryPool& workspace) {
  const int i = pool_count.load(std::memory_order_relaxed);
  pools[i] = {&memory, &workspace};
  pool_count.store(i + 1, std::memory_order_release);
}

}  // namespace openhpu
