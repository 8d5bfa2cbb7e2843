#pragma once

#include <ATen/core/stack.h>

#include <string>

namespace openhpu {

class Operator;

// Operators whose indices may be out of range, as on a Gaudi: a read gives zero, a write is dropped. No memory outside
// of a tensor is touched: the CPU kernel gets only valid indices.
//
// Runs the CPU operator on a stack of aliases, as Operator::call_cpu.
using IndexedCall = void (*)(const Operator& op, c10::Stack& stack);
IndexedCall indexed_call_of(const std::string& name);  // null: an operator like others
// The operator as reports name it: without its overload.
std::string user_name(const Operator& op);
// The line of the command that this thread runs, or of the script.
uint32_t running_site();

// While true, the calling thread reports no indices, because its operators are not calls of the script.
inline constinit thread_local bool t_unnoted_indices = false;

}  // namespace openhpu
