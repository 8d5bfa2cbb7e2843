#pragma once

#include <ATen/core/stack.h>

namespace openhpu {

class Operator;

// Sums of small integers, as Operator::call_cpu. PyTorch's kernel first copies the whole operand as int64, which takes
// eight times the memory of an int8 operand. Here large operands are summed block by block.
void sum_in_blocks(const Operator& op, c10::Stack& stack);

}  // namespace openhpu
