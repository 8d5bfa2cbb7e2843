#pragma once

#include "call/OpCall.h"
#include "device/first_seen.h"

namespace openhpu {

template <class MakeAlias>
void OpCall::alias_arguments(c10::Stack& out, MakeAlias&& make) {
  const auto& args = kernel_.args();
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
  for (size_t i = 0; i < arg_count_; ++i) {
    auto& value = args_[i];
    if (args[i].kind == OpKernel::ArgKind::Tensor && value.isTensor()) {
      out.emplace_back(alias(value.toTensor()));
    } else if (args[i].kind == OpKernel::ArgKind::TensorList && value.isList()) {
      c10::List<at::Tensor> list;
      const auto tensors = value.toListRef();
      list.reserve(tensors.size());
      for (const auto& e : tensors) list.push_back(alias(e.toTensor()));
      out.emplace_back(std::move(list));
    } else if (args[i].kind == OpKernel::ArgKind::OptionalTensorList && value.isList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const auto& e : value.toListRef()) {
        if (e.isNone())
          list.push_back(std::nullopt);
        else
          list.push_back(alias(e.toTensor()));
      }
      out.emplace_back(std::move(list));
    } else if (args[i].kind == OpKernel::ArgKind::Device && value.isDevice()) {
      out.emplace_back(c10::Device(c10::kCPU));
    } else {
      out.emplace_back(value);
    }
  }
}

}  // namespace openhpu
