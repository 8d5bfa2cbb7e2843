#pragma once

#include <ATen/core/stack.h>
#include <c10/core/ScalarType.h>

#include <atomic>
#include <map>
#include <mutex>
#include <vector>

#include "run/Operator.h"
#include "run/Widening.h"

namespace openhpu {

// Knowledge of an operator's calls by the dtypes of their operands. Thread-safe. It is used only in a run that learns a
// call. The result says how the call runs from then on.
class Widenings {
 public:
  // Calls the CPU operator. If its kernel refuses a dtype that a Gaudi has, the wider dtypes are tried in turn, float32
  // before float64, because rounding from float64 would round twice. If all refuse, or the error is another one,
  // PyTorch's first error is thrown.
  Widening call(const Operator& op, c10::Stack& stack);

 private:
  std::atomic<bool> any_{false};
  std::mutex mutex_;
  std::map<std::vector<c10::ScalarType>, Widening> known_;
};

}  // namespace openhpu
