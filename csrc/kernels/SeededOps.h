#pragma once

#include <ATen/core/Tensor.h>

#include <tuple>
#include <utility>

#include "call/OpKernel.h"

// The library `openhpu`: random operators without a generator. Each is the aten operator of the same name and overload
// with the seed as its second operand, and a function of its operands alone, so that it goes through the generic kernel
// like any other operator: queued, recorded, replayed. Its CPU kernel stands in SeededOps.cpp. Users see the aten
// name: in errors, in traces, and where CPU fallbacks are counted (OpTraits::seeded).
namespace openhpu {

class SeededOp {
 public:
  SeededOp(const char* name, const char* overload = "");

  // For operators that return what they write.
  template <class... Args>
  void run(const at::Tensor& first, uint32_t seed, Args&&... args) const {
    call(first, seed, std::forward<Args>(args)...);
  }
  template <class... Args>
  at::Tensor tensor(const at::Tensor& first, uint32_t seed, Args&&... args) const {
    return std::move(call(first, seed, std::forward<Args>(args)...)[0]).toTensor();
  }
  template <class... Args>
  std::tuple<at::Tensor, at::Tensor> two_tensors(const at::Tensor& first, uint32_t seed, Args&&... args) const {
    auto stack = call(first, seed, std::forward<Args>(args)...);
    return {std::move(stack[0]).toTensor(), std::move(stack[1]).toTensor()};
  }

 private:
  template <class... Args>
  c10::Stack call(const at::Tensor& first, uint32_t seed, Args&&... args) const {
    c10::Stack stack;
    stack.reserve(2 + sizeof...(args));
    stack.emplace_back(first);
    stack.emplace_back(static_cast<int64_t>(seed));
    (stack.emplace_back(std::forward<Args>(args)), ...);
    kernel_->call(stack);
    return stack;
  }

  OpKernel* kernel_;  // never deleted: commands in the queue refer to it
};

}  // namespace openhpu
