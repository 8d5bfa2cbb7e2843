#pragma once

#include <ATen/core/stack.h>
#include <c10/core/ScalarType.h>

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

}  // namespace openhpu
