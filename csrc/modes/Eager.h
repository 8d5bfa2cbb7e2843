#pragma once

#include <ATen/core/stack.h>
#include <c10/util/SmallVector.h>

#include "device/device.h"
#include "ops/OpKernel.h"
#include "runtime/KernelMemory.h"

namespace openhpu {

// Eager mode: an operator is submitted at once. The command holds CPU aliases of its operands (memory, not tensors,
// so tensors die when the script drops them) and where each output goes.
//
// Commands are recycled with their aliases: the worker hands a finished command back to the host, which points the
// aliases at the next operands. So in a steady state a submission allocates nothing but its outputs, and the worker
// never frees what the host allocated (their allocator arenas would contend).
class KernelCommand final : public device::Command {
 public:
  static KernelCommand* acquire(const OpKernel& kernel, device::Device& device);

  void run() override;
  void retire() override;
  const char* name() const override { return kernel_->name().c_str(); }

  // A CPU alias of an hpu tensor, valid for this submission.
  at::Tensor alias(const at::Tensor& t);
  // Keeps a value that the kernel will drop, so that it is freed on the host.
  void keep(c10::IValue value) { kept_.push_back(std::move(value)); }

  c10::Stack args;
  size_t largest = 0;                                // bytes of the largest operand or output, for the thread policy
  c10::SmallVector<PlannedOutput, 2> planned;        // by storage
  c10::SmallVector<int32_t, 4> fresh;                // by flattened result tensor: its storage, or -1

 private:
  KernelCommand() = default;
  void deliver(const c10::Stack& results);
  void reset();

  const OpKernel* kernel_ = nullptr;
  device::Device* device_ = nullptr;
  std::vector<c10::intrusive_ptr<c10::TensorImpl>> aliases_;
  size_t used_ = 0;
  std::vector<c10::IValue> kept_;
  KernelCommand* next_ = nullptr;                    // in the list of finished commands
  friend struct Finished;
};

// Sets the calling (worker) thread up for kernels: no autograd, no version counters, warnings kept for the host.
void set_up_worker();
// Applies the thread policy to the calling (worker) thread: one thread for a kernel whose largest tensor is small, since
// on a machine whose other core issues the next operators a second thread costs more than it gives; else the script's
// torch.set_num_threads. The number of threads decides how reductions are split, so it is a function of the command
// alone and never of what the host happens to do.
void apply_kernel_threads(size_t largest_bytes);
int threads_for(size_t largest_bytes) noexcept;
void apply_threads(int wanted) noexcept;
size_t largest_tensor(const c10::Stack& values);

// Visits the tensors of a list of values, lists included, in order.
template <class Visit>
void for_each_tensor(const c10::IValue& value, Visit&& visit) {
  if (value.isTensor()) {
    visit(value.toTensor());
  } else if (value.isList()) {
    for (const auto& element : value.toListRef()) for_each_tensor(element, visit);
  }
}

}  // namespace openhpu
