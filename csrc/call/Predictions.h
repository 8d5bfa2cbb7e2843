#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/ivalue.h>
#include <c10/util/SmallVector.h>

#include <string>
#include <vector>

namespace openhpu {

using Sizes = c10::SmallVector<int64_t, 6>;

// The sizes of an operator's results that are tensors, from its arguments. Empty for arguments that do not fit together,
// and for arguments that the rule does not cover. Then a run decides.
using ResultSizes = std::vector<Sizes> (*)(const c10::IValue* args);

// What tells the metadata of an operator's results without a run, for operators that take some time.
struct Prediction {
  // PyTorch's own description of a structured operator. The same C++ code computes it for the CPU kernel; here it runs on
  // meta tensors. It is not looked up by the key Meta, because torch puts Python kernels before it.
  const c10::KernelFunction* structured = nullptr;
  ResultSizes sizes = nullptr;  // a simple rule, for others
};
Prediction prediction_of(const std::string& name);

}  // namespace openhpu
