#pragma once

#include "call/OpKernel.h"
#include "hpu_custom_op.h"
#include "hpu_custom_op_pt2.h"
#include "plugin/Connection.h"
#include "run/UserKernel.h"

namespace openhpu {

// Operators that users register through Gaudi's headers. A call asks the user's callbacks for the results' metadata and
// for the kernel's params. Then it is a call of `openhpu::user_kernel`, which is submitted or recorded as any other
// operator.
class UserOperator {
 public:
  explicit UserOperator(habana::custom_op::Registration registration);

  std::vector<at::Tensor> execute(const std::vector<c10::IValue>& inputs);
  // What users know it by, of the class that its header has.
  const void* descriptor() const noexcept {
    return registration_.legacy ? static_cast<const void*>(&legacy_descriptor_) : &descriptor_;
  }
  const habana::custom_op::Registration& registration() const noexcept { return registration_; }
  const UserOp& op() const noexcept { return op_; }
  uint64_t calls() const noexcept { return calls_.load(std::memory_order_relaxed); }

 private:
  // The schema that the user defined, looked up at the first call.
  const c10::FunctionSchema& schema();
  habana::PartialOutputMetaDataVector metadata(const std::vector<c10::IValue>& inputs) const;
  // The operand that result `i` is, by the schema: an index into `inputs`; -1: a new tensor.
  int64_t aliased(size_t i, size_t input_count) const;
  // One call of `execute`: what it got and what the callbacks said.
  struct Called {
    const std::vector<c10::IValue>& inputs;
    const habana::PartialOutputMetaDataVector& metadata;
    c10::ArrayRef<at::Tensor> tensors;  // the kernel's operands; an undefined one was not given
    c10::ArrayRef<uint64_t> words;      // its params
    size_t params_size;
    c10::Device device;
    std::shared_ptr<const ShapeEntry> entry{};  // once it is known
  };
  int64_t operand_of(const Called& called, size_t result) const;
  bool writes_operand(const Called& called) const;
  // As a call of `openhpu::user_kernel`, which is submitted or recorded.
  std::vector<at::Tensor> call(Called& called);

  const habana::custom_op::Registration registration_;
  UserOp op_;
  const habana::custom_op::UserCustomOpDescriptor descriptor_{this, registration_.schema, registration_.guid};
  const habana::custom_op::HabanaCustomOpDescriptor legacy_descriptor_{this, registration_.schema, registration_.guid};
  OpKernel kernel_;
  ShapeCache cache_;   // by the arguments of `openhpu::user_kernel`
  ShapeCache direct_;  // by operands and results
  const c10::IValue key_;
  std::once_flag defined_;
  std::optional<c10::OperatorHandle> handle_;
  std::vector<int64_t> aliases_;   // by result of the schema: the argument that it is; -1: none
  std::vector<bool> writes_only_;  // by argument: an `out`, whose contents nobody reads
  std::atomic<uint64_t> calls_{0};
};

// What the plugin libraries call.
const Connection& user_operators();
// All that are registered.
std::vector<const UserOperator*> all_user_operators();
// The errors of registrations, once each: those that no exception could tell.
std::vector<std::string> take_registration_errors();

}  // namespace openhpu
