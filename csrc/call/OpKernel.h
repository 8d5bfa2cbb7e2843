#pragma once

#include <ATen/core/op_registration/op_registration.h>

#include "run/Operator.h"
#include "run/ShapeCache.h"

namespace openhpu {

struct OpCall;

// The table's row of an operator; the generic case has none.
const OpTraits& traits_of(const std::string& name);
// Operators that PyTorch decomposes for backends without a kernel, and that are queued as one command here.
bool is_single_operator(const std::string& name);

using Sizes = c10::SmallVector<int64_t, 6>;

// The sizes of an operator's results that are tensors, from its arguments. Empty for arguments that do not fit
// together, and for arguments that the rule does not cover. Then a run decides.
using ResultSizes = std::vector<Sizes> (*)(const c10::IValue* args);

// What tells the metadata of an operator's results without a run, for operators that take some time.
struct Prediction {
  // PyTorch's own description of a structured operator. The same C++ code computes it for the CPU kernel; here it runs
  // on meta tensors. It is not looked up by the key Meta, because torch puts Python kernels before it.
  const c10::KernelFunction* structured = nullptr;
  ResultSizes sizes = nullptr;  // a simple rule, for others
};
Prediction prediction_of(const std::string& name);

// Calls the CPU operator for an unknown call. If its kernel refuses a dtype that a Gaudi has, the wider dtypes are
// tried in turn, float32 before float64, because rounding from float64 would round twice. If all refuse, or the error
// is another one, PyTorch's first error is thrown. Returns the dtypes in which it ran.
Widening learn_cpu(const Operator& op, c10::Stack& stack);

// The generic kernel: runs an operator's CPU kernel on aliases of device memory, on the device's worker. When the
// outputs' metadata is known (ShapeCache) the host only assigns memory and queues a command.
class OpKernel final : public c10::OperatorKernel, public Operator {
 public:
  explicit OpKernel(const c10::OperatorHandle& op);
  // One that errors, traces and reports know by another name.
  OpKernel(const c10::OperatorHandle& op, std::string name) : OpKernel(op) { name_ = std::move(name); }

  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, c10::Stack* stack) { call(*stack); }

  // The same without dispatch: the results replace the arguments on the stack.
  void call(c10::Stack& stack);
  // The same for arguments that lie elsewhere and stay there. The results are appended; null: nobody wants them, since
  // the operator returns what it wrote.
  void call(c10::IValue* args, c10::Stack* results);

 private:
  void call(OpCall& call);
  // Runs it while the host waits, and tells why it waited; that it ran on the host is an event of its own.
  std::shared_ptr<const ShapeEntry> run_and_wait(OpCall& call, bool on_host);
  bool is_native(const OpCall& call);
  friend struct OpCall;

  Prediction prediction_;
  int output_size_ = -1;  // the argument that gives the size of the result; -1: none
  bool fills_ = false;    // a random operator that returns its first operand, refilled: nothing to learn from a run
  std::atomic<uint64_t> policy_version_{0};
  std::atomic<uint64_t> native_dtypes_{~uint64_t{0}};
  ShapeCache cache_;
};

// Registers the generic kernel for every operator that has a CPU kernel and no kernel of its own here, and as the
// fallback of the HPU key for operators that are registered later.
void register_op_kernels();

// Registers the generic kernel for an operator with one of the most common C++ signatures, so that PyTorch calls it
// with unboxed arguments. An operator with another signature is called boxed.
//
// Boxing copies every tensor, and the first copy of a tensor that Python holds takes Python's lock, twice (see
// c10::intrusive_ptr::retain_): a third of what it takes to queue a small operator.
std::optional<c10::RegistrationHandleRAII> register_direct_kernel(const c10::OperatorHandle& op, c10::DispatchKey key);

// In lazy mode an operand on the CPU is moved to the device, as on a Gaudi. The gradient of such an operand has to come
// back to the CPU, but the generic kernel runs below autograd: when it moves an operand, autograd has not yet attached
// its node to the results. This corrects the nodes of the calls that moved something: between the node and the operand
// it puts a copy back to the CPU. It runs before the thread's next operator and before a backward begins.
void return_moved_gradients();

}  // namespace openhpu
