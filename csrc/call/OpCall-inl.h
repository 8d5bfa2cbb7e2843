#pragma once

#include "call/OpCall.h"
#include "device/first_seen.h"
#include "run/Tensors.h"

namespace openhpu {

template <class MakeAlias>
void OpCall::alias_arguments(c10::Stack& out, MakeAlias&& make) {
  out.reserve(arg_count_ + 1);
  // An operand given twice is one tensor for the kernel too: in-place composites pass self as input and as output.
  device::FirstSeen seen;
  if (kernel_.any_written_) seen.begin(operands_.size());
  std::vector<at::Tensor> made;
  auto alias_new = [&](const at::Tensor& t) -> at::Tensor {
    // A CPU operand's value is taken now: the script may change it before the command runs.
    if (t.device().type() == c10::kCPU) {
      auto copy = t.clone();
      if (t.unsafeGetTensorImpl()->is_wrapped_number()) copy.unsafeGetTensorImpl()->set_wrapped_number(true);
      return copy;
    }
    return make(t);
  };
  auto alias = [&](const at::Tensor& t) -> at::Tensor {
    if (!t.defined() || !kernel_.any_written_) return t.defined() ? alias_new(t) : t;
    const size_t first = seen.add(reinterpret_cast<uintptr_t>(t.unsafeGetTensorImpl()), made.size());
    if (first == made.size()) made.push_back(alias_new(t));
    return made[first];
  };
  for (size_t i = 0; i < arg_count_; ++i)
    out.push_back(args_[i].isDevice() ? c10::IValue(c10::Device(c10::kCPU)) : map_tensors(args_[i], alias));
}

}  // namespace openhpu
