#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/op_registration/op_registration.h>

#include <atomic>
#include <string>
#include <vector>

#include "graph/ShapeCache.h"
#include "ops/ResultSizes.h"
#include "ops/Widening.h"

namespace openhpu {

struct OpCall;

// What distinguishes an operator from the generic case; the table is in OpTable.cpp.
struct OpTraits {
  bool always_wait = false;      // results depend on values: the host waits for the metadata
  bool masks_wait = false;       // results depend on values only where an operand is a mask (bool or uint8)
  bool numbers_matter = false;   // Scalar arguments determine the outputs' sizes (arange)
  bool cpu_operands = false;     // accepts CPU tensors that are not 0-dim, as PyTorch's CUDA kernels do
  bool host_metadata = false;    // answers from metadata alone, without device work (is_set_to)
  bool collective = false;       // other processes take part: never rehearsed, and run by the worker alone
  bool native = false;           // runs on the device whatever the table of the generation says
  bool seeded = false;           // the aten operator of the same name with its seed as an operand (SeededOps)
  // Arguments (bits) that the kernel changes although the schema does not say so: when the boolean argument of the given
  // position is true; -1: always.
  struct {
    uint32_t arguments = 0;
    int when = -1;
  } undeclared_writes{};
};
const OpTraits& traits_of(const std::string& name);
// Operators that PyTorch decomposes for backends without a kernel, and that are queued as one command here.
bool is_single_operator(const std::string& name);

// The generic kernel: runs an operator's CPU kernel on aliases of device memory, on the device's worker. When the
// outputs' metadata is known (ShapeCache) the host only assigns memory and queues a command.
class OpKernel final : public c10::OperatorKernel {
 public:
  explicit OpKernel(const c10::OperatorHandle& op);

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet ks, c10::Stack* stack);

  // The same without dispatch: the results replace the arguments on the stack.
  void call(c10::Stack& stack);
  // The same for arguments that lie elsewhere and stay there. The results are appended; null: nobody wants them, since
  // the operator returns what it wrote.
  void call(c10::IValue* args, c10::Stack* results);

  // As users know the operator.
  const std::string& name() const noexcept { return name_; }
  // Runs the CPU operator on a stack of aliases, on this thread.
  void call_cpu(c10::Stack& stack) const { handle_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack); }
  // The same in the dtypes of a call that is known.
  void call_cpu(c10::Stack& stack, Widening widening) const {
    if (C10_LIKELY(!widening))
      call_cpu(stack);
    else
      call_widened(*this, stack, widening);
  }
  // The same for a call of which nothing is known yet; says in which dtypes it ran.
  Widening learn_cpu(c10::Stack& stack) const { return widenings_.call(*this, stack); }

  enum class ArgKind : uint8_t { Tensor, TensorList, OptionalTensorList, Number, Device, Generator, Other };
  struct Arg {
    ArgKind kind;
    bool written;
  };
  const std::vector<Arg>& args() const noexcept { return args_; }
  // Whether a call with these arguments changes one of them.
  bool writes(size_t arg, const c10::IValue* args) const;
  const OpTraits& traits() const noexcept { return traits_; }
  const c10::FunctionSchema& schema() const { return handle_.schema(); }

 private:
  void call(OpCall& call);
  bool is_native(const OpCall& call);
  friend struct OpCall;

  c10::OperatorHandle handle_;
  std::string name_;
  OpTraits traits_;
  const c10::KernelFunction* structured_;  // null: none
  ResultSizes result_sizes_;                // null: no rule
  std::vector<Arg> args_;
  bool any_written_ = false;
  bool fills_ = false;  // a random operator that returns its first operand, refilled: nothing to learn from a run
  std::atomic<uint64_t> policy_version_{0};
  std::atomic<uint64_t> native_dtypes_{~uint64_t{0}};
  ShapeCache cache_;
  mutable Widenings widenings_;
};

// Registers the generic kernel for every operator that has a CPU kernel and no kernel of its own here, and as the
// fallback of the HPU key for operators that are registered later.
void register_op_kernels();

}  // namespace openhpu
