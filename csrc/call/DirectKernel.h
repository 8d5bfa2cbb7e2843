#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

namespace openhpu {

// Registers the generic kernel for an operator with one of the most common C++ signatures, so that PyTorch calls it
// with unboxed arguments. An operator with another signature is called boxed.
//
// Boxing copies every tensor, and the first copy of a tensor that Python holds takes Python's lock, twice (see
// c10::intrusive_ptr::retain_): a third of what it takes to queue a small operator.
std::optional<c10::RegistrationHandleRAII> register_direct_kernel(const c10::OperatorHandle& op, c10::DispatchKey key);

}  // namespace openhpu
