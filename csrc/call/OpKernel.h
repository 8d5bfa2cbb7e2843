#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/op_registration/op_registration.h>

#include <atomic>
#include <memory>
#include <string>

#include "call/Predictions.h"
#include "call/Widenings.h"
#include "run/Operator.h"
#include "run/ShapeCache.h"

namespace openhpu {

struct OpCall;

// The table's row of an operator; the generic case has none.
const OpTraits& traits_of(const std::string& name);
// Operators that PyTorch decomposes for backends without a kernel, and that are queued as one command here.
bool is_single_operator(const std::string& name);

// The generic kernel: runs an operator's CPU kernel on aliases of device memory, on the device's worker. When the
// outputs' metadata is known (ShapeCache) the host only assigns memory and queues a command.
class OpKernel final : public c10::OperatorKernel, public Operator {
 public:
  explicit OpKernel(const c10::OperatorHandle& op);

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet ks, c10::Stack* stack);

  // The same without dispatch: the results replace the arguments on the stack.
  void call(c10::Stack& stack);
  // The same for arguments that lie elsewhere and stay there. The results are appended; null: nobody wants them, since
  // the operator returns what it wrote.
  void call(c10::IValue* args, c10::Stack* results);

  // Runs the CPU operator for an unknown call. Returns the dtypes in which it ran.
  Widening learn_cpu(c10::Stack& stack) const { return widenings_.call(*this, stack); }

 private:
  void call(OpCall& call);
  // Runs it while the host waits, and tells why it waited; that it ran on the host is an event of its own.
  std::shared_ptr<const ShapeEntry> run_and_wait(OpCall& call, bool on_host);
  bool is_native(const OpCall& call);
  friend struct OpCall;

  Prediction prediction_;
  int output_size_ = -1;  // the argument that gives the size of the result; -1: none
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
