#pragma once

#include <ATen/core/stack.h>
#include <c10/core/ScalarType.h>

#include <atomic>
#include <map>
#include <mutex>
#include <vector>

#include "graph/Operator.h"
#include "graph/Widening.h"

namespace openhpu {

// What is known of an operator's calls by the dtypes of their operands. Thread-safe. Asked only where a call is run to
// learn of it: what is learned says how the call runs from then on.
class Widenings {
 public:
  // Calls the CPU operator. Where its kernel refuses a dtype that a Gaudi has, the dtypes that may hold its values are
  // tried in turn, float32 before float64: rounding from float64 would round twice. If all refuse, or the error is
  // another one, PyTorch's first error is thrown.
  Widening call(const Operator& op, c10::Stack& stack);

 private:
  std::atomic<bool> any_{false};
  std::mutex mutex_;
  std::map<std::vector<c10::ScalarType>, Widening> known_;
};

}  // namespace openhpu
