#pragma once

#include <ATen/core/stack.h>
#include <c10/core/ScalarType.h>

#include <atomic>
#include <map>
#include <mutex>
#include <vector>

namespace openhpu {

class OpKernel;

// A dtype that an operator's CPU kernel lacks, and the wider one in which its calls are computed instead.
struct Widening {
  c10::ScalarType from = c10::ScalarType::Undefined;
  c10::ScalarType to = c10::ScalarType::Undefined;
  explicit operator bool() const noexcept { return to != c10::ScalarType::Undefined; }
};

// Calls the CPU operator on a stack of aliases with every operand of dtype `from` converted to `to`. Results, and
// operands that it writes, are rounded back once.
void call_widened(const OpKernel& kernel, c10::Stack& stack, Widening widening);

// What is known of an operator's calls by the dtypes of their operands. Thread-safe. Asked only where a call is run to
// learn of it: what is learned says how the call runs from then on.
class Widenings {
 public:
  // Calls the CPU operator. Where its kernel refuses a dtype that a Gaudi has, the dtypes that may hold its values are
  // tried in turn, float32 before float64: rounding from float64 would round twice. If all refuse, or the error is
  // another one, PyTorch's first error is thrown.
  Widening call(const OpKernel& kernel, c10::Stack& stack);

 private:
  std::atomic<bool> any_{false};
  std::mutex mutex_;
  std::map<std::vector<c10::ScalarType>, Widening> known_;
};

}  // namespace openhpu
