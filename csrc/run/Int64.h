#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>

namespace openhpu {

class Operator;

// Wraps the int64 elements of a CPU tensor to the range of int32, and returns how many changed.
int64_t wrap_to_int32(const at::Tensor& t);

// Runs the CPU operator as Operator::call_cpu does, and wraps what it returned or wrote (OPENHPU_INT64=gaudi).
void call_with_int32(const Operator& op, c10::Stack& stack);

}  // namespace openhpu
