#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include <algorithm>

namespace openhpu {

// Visits the tensors of a list of values, lists included, in order.
template <class Visit>
void for_each_tensor(const c10::IValue& value, Visit&& visit) {
  if (value.isTensor()) {
    visit(value.toTensor());
  } else if (value.isList()) {
    for (const auto& element : value.toListRef()) for_each_tensor(element, visit);
  }
}

// Bytes of the largest tensor, for the thread policy.
inline size_t largest_tensor(const c10::Stack& values) {
  size_t largest = 0;
  for (const auto& value : values)
    for_each_tensor(value, [&](const at::Tensor& t) {
      if (t.defined())
        largest = std::max(largest, static_cast<size_t>(t.unsafeGetTensorImpl()->numel()) * t.itemsize());
    });
  return largest;
}

}  // namespace openhpu
