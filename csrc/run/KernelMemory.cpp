#include "run/KernelMemory.h"

#include <c10/core/CPUAllocator.h>

#include "torch/HPUDevice.h"

namespace openhpu {
namespace {

thread_local KernelScope* tls_scope = nullptr;
// Blocks of the workspace that a plan assigned to outputs, in use by this thread. Who made the plan frees them.
thread_local std::vector<void*> tls_lent;

struct Pools {
  device::MemoryPool* memory;
  device::MemoryPool* workspace;
};
std::array<Pools, kMaxDevices> pools;
std::atomic<int> pool_count{0};
c10::DeleterFnPtr base_delete = nullptr;
std::atomic<bool> installed{false};

void release(void* ptr) {
  const int n = pool_count.load(std::memory_order_acquire);
  for (int i = 0; i < n; ++i) {
    if (pools[i].workspace->contains(ptr)) {
      if (C10_LIKELY(tls_lent.empty()) || std::erase(tls_lent, ptr) == 0) pools[i].workspace->free(ptr);
      return;
    }
    if (pools[i].memory->contains(ptr)) return;
  }
  base_delete(ptr);
}

// One deleter for all CPU memory, whichever allocator it came from: PyTorch compares an allocation's deleter with
// its allocator's raw_deleter() to tell plain memory from wrapped memory. What was allocated before this allocator was
// there has the base's deleter, and its storage the base allocator.
struct KernelAllocator final : c10::Allocator {
  explicit KernelAllocator(c10::Allocator* base) : base_allocator(base) {}
  c10::Allocator* const base_allocator;
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

void* allocate_scratch(device::MemoryPool& workspace, size_t nbytes) {
  for (bool again = true;; again = false) {
    try {
      return workspace.allocate(nbytes);
    } catch (const device::OutOfMemory& e) {
      // What is free here is free at once: it may lie elsewhere than where the block would.
      if (again && e.of_machine) {
        workspace.trim();
        continue;
      }
      TORCH_CHECK_WITH(OutOfMemoryError, false, e.what());
    }
  }
}

}  // namespace

KernelScope::KernelScope(device::MemoryPool& workspace, const PlannedOutput* planned, size_t count, bool record)
    : workspace_(workspace), planned_(planned), planned_count_(count), record_(record), outer_(tls_scope) {
  tls_scope = this;
}

KernelScope::~KernelScope() { tls_scope = outer_; }

void* KernelScope::allocate(size_t nbytes) {
  const bool counted = aside_ == 0;
  const uint32_t ordinal = next_;
  next_ += counted;
  void* ptr = nullptr;
  for (; counted && next_planned_ < planned_count_ && planned_[next_planned_].ordinal <= ordinal; ++next_planned_) {
    const auto& plan = planned_[next_planned_];
    if (plan.ordinal == ordinal && plan.nbytes == nbytes) ptr = plan.ptr;
  }
  if (ptr && workspace_.contains(ptr)) tls_lent.push_back(ptr);
  if (!ptr && nbytes > 0) {
    try {
      ptr = allocate_scratch(workspace_, nbytes);
    } catch (...) {
      out_of_memory_ = std::current_exception();
      throw;
    }
  }
  if (record_ && counted) last_[ptr] = ordinal;
  return ptr;
}

int64_t KernelScope::ordinal_of(const void* ptr) const {
  const auto found = last_.find(ptr);
  return found == last_.end() ? -1 : found->second;
}

AsideOfKernel::AsideOfKernel() noexcept : scope_(tls_scope) {
  if (scope_) ++scope_->aside_;
}
AsideOfKernel::~AsideOfKernel() {
  if (scope_) --scope_->aside_;
}

void install_kernel_allocator() {
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  if (installed.load(std::memory_order_relaxed)) return;
  auto* base = c10::GetCPUAllocator();
  base_delete = base->raw_deleter();
  TORCH_CHECK(base_delete, "The CPU allocator in force has no raw deleter; openhpu can't stand in front of it.");
  auto* allocator = new KernelAllocator(base);  // leaked: CPU tensors outlive static destructors
  // PyTorch keeps a plain pointer, which other threads may be reading: they get either allocator, each complete.
  std::atomic_thread_fence(std::memory_order_release);
  c10::SetCPUAllocator(allocator, /*priority=*/100);
  installed.store(true, std::memory_order_release);
}

bool kernel_allocator_installed() noexcept { return installed.load(std::memory_order_acquire); }

void register_kernel_pools(device::MemoryPool& memory, device::MemoryPool& workspace) {
  const int i = pool_count.load(std::memory_order_relaxed);
  pools[i] = {&memory, &workspace};
  pool_count.store(i + 1, std::memory_order_release);
}

}  // namespace openhpu
