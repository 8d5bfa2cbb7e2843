#pragma once

#include "openhpu/kernel_library.h"

// An access of a user's kernel that faults ends the process, as any such access does. Before that, one message names
// the operator, its guid, the operand and the line of the script.
namespace openhpu {

// While it lives, the calling thread runs this call of a kernel.
class FaultScope {
 public:
  explicit FaultScope(const KernelCall& call) noexcept;
  ~FaultScope();
  FaultScope(const FaultScope&) = delete;
  FaultScope& operator=(const FaultScope&) = delete;

 private:
  const KernelCall* outer_;
};

}  // namespace openhpu
