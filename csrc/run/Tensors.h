#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include <algorithm>
#include <optional>
#include <utility>

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

// The value with `map(tensor)` in the place of each of its tensors.
template <class Map>
c10::IValue map_tensors(const c10::IValue& value, Map&& map) {
  const auto map_list = [&](auto list) {
    for (const auto& e : value.toListRef()) {
      if (e.isNone())
        list.push_back({});
      else
        list.push_back(map(e.toTensor()));
    }
    return c10::IValue(std::move(list));
  };
  if (value.isTensor()) return map(value.toTensor());
  if (value.isTensorList()) return map_list(c10::List<at::Tensor>());
  if (value.isOptionalTensorList()) return map_list(c10::List<std::optional<at::Tensor>>());
  return value;
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
