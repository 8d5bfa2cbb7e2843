#pragma once

#include <ATen/core/ivalue.h>
#include <c10/util/SmallVector.h>

#include <string>
#include <vector>

namespace openhpu {

using Sizes = c10::SmallVector<int64_t, 6>;

// The sizes of an operator's results (of those that are tensors; the rest is not looked at), from its arguments. For
// operators that are no structured ones, take long, and have a simple rule; null for all others. Empty for arguments that
// don't fit together, and for those that the rule does not cover: a run will tell.
using ResultSizes = std::vector<Sizes> (*)(const c10::IValue* args);
ResultSizes result_sizes_of(const std::string& name);

}  // namespace openhpu
