#pragma once

#include <ATen/core/Tensor.h>

#include "device/device.h"

// The memory of kernels. Kernels are PyTorch's CPU kernels, and they allocate through PyTorch's CPU allocator. While a
// kernel runs, this code answers its allocations. An allocation that is known to become an output gets the device
// memory that the host assigned when it submitted the command. So no output is copied. All others are temporary and
// come from the device's workspace, which is reused and has no page faults.
namespace openhpu {

struct PlannedOutput {
  void* ptr;  // assigned by the host
  size_t nbytes;
  uint32_t ordinal;  // index of the kernel's allocation that becomes this output, from 0
};

// Puts planned outputs in the order that KernelScope expects, which is nearly always theirs.
template <class Planned>
void order_planned(Planned& planned) {
  const auto earlier = [](const PlannedOutput& a, const PlannedOutput& b) { return a.ordinal < b.ordinal; };
  if (!std::is_sorted(planned.begin(), planned.end(), earlier))
    std::stable_sort(planned.begin(), planned.end(), earlier);
}

class KernelScope {
 public:
  // `planned`: in the order of ordinals.
  KernelScope(device::MemoryPool& workspace, const PlannedOutput* planned, size_t count, bool record);
  ~KernelScope();
  KernelScope(const KernelScope&) = delete;
  KernelScope& operator=(const KernelScope&) = delete;

  // The last allocation that returned `ptr` (only when recording); -1 if none.
  int64_t ordinal_of(const void* ptr) const;

  void* allocate(size_t nbytes);
  // The error of an allocation that failed, for code that passes on only that something failed; null: none did.
  const std::exception_ptr& out_of_memory() const noexcept { return out_of_memory_; }

 private:
  friend class AsideOfKernel;
  device::MemoryPool& workspace_;
  int aside_ = 0;  // allocations are none of the kernel's
  const PlannedOutput* planned_;
  size_t planned_count_;
  size_t next_planned_ = 0;
  uint32_t next_ = 0;
  bool record_;
  std::unordered_map<const void*, int64_t> last_;  // by address: the last allocation that returned it, if recording
  std::exception_ptr out_of_memory_;
  KernelScope* outer_;
};

// While it lives, allocations of the calling thread do not count as the kernel's and become no outputs.
class AsideOfKernel {
 public:
  AsideOfKernel() noexcept;
  ~AsideOfKernel();
  AsideOfKernel(const AsideOfKernel&) = delete;
  AsideOfKernel& operator=(const AsideOfKernel&) = delete;

 private:
  KernelScope* const scope_;
};

// Results that lie outside of the memory that the host knows them by. They may lie in the places of each other. So the
// code looks at all of them first. A result that could be overwritten is copied through a buffer.
class Misplaced {
 public:
  // `place` has the sizes of `result`.
  void add(at::Tensor place, at::Tensor result) { results_.push_back({std::move(place), std::move(result)}); }
  // A whole storage, byte for byte.
  void add(void* place, const c10::Storage& result);
  // Worker thread. Copies them, and counts them.
  void deliver(device::Device& device);

 private:
  struct Result {
    at::Tensor place, value;
  };
  c10::SmallVector<Result, 0> results_;
};

// Puts this allocator before PyTorch's, when the first device is opened. A process without a device keeps PyTorch's.
// Later calls do nothing.
void install_kernel_allocator();
bool kernel_allocator_installed() noexcept;
// Frees of addresses in this pool go to it; device memory is only ever assigned, so its frees do nothing.
void register_kernel_pools(device::MemoryPool& memory, device::MemoryPool& workspace);

}  // namespace openhpu
