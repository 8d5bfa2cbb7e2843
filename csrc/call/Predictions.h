#pragma once

#include <ATen/core/ivalue.h>
#include <c10/util/SmallVector.h>

#include <string>
#include <vector>

namespace openhpu {

using Sizes = c10::SmallVector<int64_t, 6>;

// The sizes of an operator's results that are tensors, from its arguments. For operators that are not structured, take
// long, and have a simple rule; null for all others. Empty for arguments that do not fit together, and for arguments
// that the rule does not cover. Then a run decides.
using ResultSizes = std::vector<Sizes> (*)(const c10::IValue* args);
ResultSizes result_sizes_of(const std::string& name);

}  // namespace openhpu
