#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include "observe/Differences.h"
#include "observe/KernelReports.h"
#include "observe/events.h"

namespace openhpu {

class Operator;

// A dtype that an operator's CPU kernel lacks, and the wider one in which its calls are computed instead.
struct Widening {
  c10::ScalarType from = c10::ScalarType::Undefined;
  c10::ScalarType to = c10::ScalarType::Undefined;
  explicit operator bool() const noexcept { return to != c10::ScalarType::Undefined; }
};

// Calls the CPU operator on a stack of aliases with every operand of dtype `from` converted to `to`. Results, and
// operands that it writes, are rounded back once.
void call_widened(const Operator& op, c10::Stack& stack, Widening widening);

// Runs the CPU operator on a stack of aliases, as Operator::call_cpu.
using OwnCall = void (*)(const Operator& op, c10::Stack& stack);

// Operators whose indices may be out of range, as on a Gaudi: a read gives zero, a write is dropped. No memory outside
// of a tensor is touched: the CPU kernel gets only valid indices. Null: an operator like others.
OwnCall indexed_call_of(const std::string& name);
// While true, the calling thread reports no indices, because its operators are not calls of the script.
inline constinit thread_local bool t_unnoted_indices = false;

// Products by the library that is chosen for them (run/Products). Null: the operator is no product.
OwnCall product_call_of(const std::string& name);

// Sums of small integers. PyTorch's kernel first copies the whole operand as int64, which takes eight times the memory
// of an int8 operand. Here large operands are summed block by block.
void sum_in_blocks(const Operator& op, c10::Stack& stack);

// Wraps what the operator returned or wrote (OPENHPU_INT64=gaudi).
void call_with_int32(const Operator& op, c10::Stack& stack);
// Wraps the int64 elements of a CPU tensor to the range of int32, and returns how many changed.
int64_t wrap_to_int32(const at::Tensor& t);

// float8_e4m3fn as on a Gaudi 2, which keeps the uppermost exponent for infinity and NaN: its largest number is 240,
// where PyTorch's is 448 (Difference::E4m3Range). At the level AsGaudi a cast gives infinity or NaN for operands above
// 240, other operators compute with NaN for them, and results above 240 become infinity.
void call_with_e4m3(const Operator& op, c10::Stack& stack, Widening widening);

// The operator as reports name it: without its overload.
std::string user_name(const Operator& op);
// The line of the command that this thread runs, or of the script.
uint32_t running_site();

// Differences of an operator from the generic case. The table is in call/OpTable.cpp.
struct OpTraits {
  bool always_wait = false;     // results depend on values: the host waits for the metadata
  bool masks_wait = false;      // results depend on values only where an operand is a mask (bool or uint8)
  bool numbers_matter = false;  // Scalar arguments determine the outputs' sizes (arange)
  bool cpu_operands = false;    // accepts CPU tensors that are not 0-dim, as PyTorch's CUDA kernels do
  bool collective = false;      // other processes take part: never rehearsed, and run by the worker alone
  bool native = false;          // native in every generation, regardless of the table
  bool exact = false;           // pure, and its result has the same bits in a recipe, except in small floats
  bool seeded = false;          // the aten operator of the same name with its seed as an operand (SeededOps)
  // Arguments (bits) that the kernel changes although the schema does not say so: when the boolean argument of the
  // given position is true; -1: always.
  struct {
    uint32_t arguments = 0;
    int when = -1;
  } undeclared_writes{};
};

// An operator as a recorded call knows it: its name, what its arguments are, and how its CPU kernel is run.
class Operator {
 public:
  enum class ArgKind : uint8_t { Tensor, TensorList, OptionalTensorList, Number, Device, Generator, Other };
  struct Arg {
    ArgKind kind;
    bool written;
  };

  Operator(const c10::OperatorHandle& op, const OpTraits& traits);

  // As users know the operator.
  const std::string& name() const noexcept { return name_; }
  // Runs the CPU operator on a stack of aliases, on this thread.
  void call_cpu(c10::Stack& stack) const { call_cpu(stack, {}); }
  // The same in the dtypes of a call that is known.
  void call_cpu(c10::Stack& stack, Widening widening) const {
    if (C10_UNLIKELY(watches(Difference::E4m3Range)))
      call_with_e4m3(*this, stack, widening);
    else
      call_cpu_in(stack, widening);
  }
  // The same, regardless of float8_e4m3fn on a Gaudi 2.
  void call_cpu_in(c10::Stack& stack, Widening widening) const {
    if (C10_UNLIKELY(static_cast<bool>(widening)))
      call_widened(*this, stack, widening);
    else if (C10_UNLIKELY(narrow_int64()))
      call_with_int32(*this, stack);
    else
      call_cpu_as_it_is(stack);
  }
  // The same, regardless of OPENHPU_INT64.
  void call_cpu_as_it_is(c10::Stack& stack) const {
    if (C10_UNLIKELY(own_call_ != nullptr))
      own_call_(*this, stack);
    else
      call_kernel(stack);
  }
  // The same without a look at its indices.
  void call_kernel(c10::Stack& stack) const {
    handle_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
  }
  const std::vector<Arg>& args() const noexcept { return args_; }
  // Whether a call with these arguments changes one of them.
  bool writes(size_t arg, const c10::IValue* args) const;
  const OpTraits& traits() const noexcept { return traits_; }
  bool is_called_by(OwnCall own) const noexcept { return own_call_ == own; }
  const c10::FunctionSchema& schema() const { return handle_.schema(); }

 protected:
  c10::OperatorHandle handle_;
  std::string name_;
  OpTraits traits_;
  std::vector<Arg> args_;
  bool any_written_ = false;

 private:
  OwnCall own_call_;  // in place of the kernel alone; null: none
};

}  // namespace openhpu
