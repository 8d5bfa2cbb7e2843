// What hpu_custom_op_pt2.h and hpu_custom_op.h have in common. Include one of these instead.
#pragma once

#include <ATen/core/stack.h>
#include <ATen/core/Tensor.h>
#include <torch/headeronly/version.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "openhpu/custom_kernel.h"

#if defined(_GLIBCXX_USE_CXX11_ABI) && !_GLIBCXX_USE_CXX11_ABI
#error "PyTorch's wheels use the new ABI of libstdc++: compile without -D_GLIBCXX_USE_CXX11_ABI=0"
#endif

namespace at {
using Stack = std::vector<c10::IValue>;
}

namespace habana {

// One result of an operator.
struct PartialOutputMetaData {
  at::ScalarType dtype{at::ScalarType::Undefined};
  std::vector<int64_t> shape{};
};
using PartialOutputMetaDataVector = std::vector<PartialOutputMetaData>;

namespace custom_op {

using OutputMetaFn = std::function<PartialOutputMetaDataVector(const at::Stack& inputs)>;
// Returns the kernel's params and sets their size in bytes.
using FillParamsFn = std::function<std::shared_ptr<void>(const at::Stack& inputs, size_t& size)>;

// An operator as it was registered. The core keeps it until the process ends.
struct Registration {
  std::string schema;  // the schema's name: "custom_op::custom_relu"
  std::string guid;
  OutputMetaFn output_meta;
  FillParamsFn fill_params;
  std::vector<size_t> tensors;  // legacy: which of the arguments are the kernel's operands; else all tensors are
  bool legacy = false;          // by hpu_custom_op.h
  std::string error;            // what is wrong with it
};

namespace detail {

// The release of PyTorch that the caller is compiled for.
constexpr const char kTorch[] = C10_STRINGIZE(TORCH_VERSION_MAJOR) "." C10_STRINGIZE(TORCH_VERSION_MINOR);

OPENHPU_EXPORT void add(Registration registration, const char* torch) noexcept;
// The descriptor of a registered operator: a UserCustomOpDescriptor, or a HabanaCustomOpDescriptor if it is `legacy`.
// It lives until the process ends. Throws c10::Error.
OPENHPU_EXPORT const void* find(const std::string& schema, bool legacy);
// `op`: of the core.
OPENHPU_EXPORT std::vector<at::Tensor> execute(const void* op, const std::vector<c10::IValue>& inputs);

}  // namespace detail
}  // namespace custom_op
}  // namespace habana

// Declares `params`, a shared object of the struct whose bytes are zeros, and sets `size` to its bytes.
#define HPU_PARAMS_STUB(Struct)                                     \
  auto params = std::make_shared<Struct>();                         \
  std::memset(static_cast<void*>(params.get()), 0, sizeof(Struct)); \
  size = sizeof(Struct)
