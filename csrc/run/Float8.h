#pragma once

#include <ATen/core/stack.h>

#include <atomic>

#include "observe/events.h"
#include "run/Widening.h"

// float8_e4m3fn as on a Gaudi 2, which keeps the uppermost exponent for infinity and NaN: its largest number is 240, where
// PyTorch's is 448. See docs/differences.md, e4m3-range.
namespace openhpu {

class Operator;

enum class E4m3 : uint8_t { kPyTorch, kNote, kGaudi2 };  // kNote: PyTorch's numbers; those above 240 are reported
inline std::atomic<E4m3> g_e4m3{E4m3::kPyTorch};

// Whether operators are to be looked at.
inline bool watches_e4m3() noexcept {
  const E4m3 values = g_e4m3.load(std::memory_order_relaxed);
  return values == E4m3::kGaudi2 || (values == E4m3::kNote && listening(kKindness));
}

// Calls the CPU operator, as Operator::call_cpu. With kGaudi2 a cast gives infinity or NaN for operands above 240, other
// operators compute with NaN for them, and results above 240 become infinity.
void call_with_e4m3(const Operator& op, c10::Stack& stack, Widening widening);

}  // namespace openhpu
