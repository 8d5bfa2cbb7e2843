#pragma once

#include "openhpu/custom_operator.h"
#include "openhpu/kernel_library.h"

namespace openhpu {

// What the libraries that users link (`libhabana_pytorch_plugin.so`, `libhabana_pytorch2_plugin.so`) call in the core.
// The core hands it to each library when it has loaded that library.
struct Connection {
  void (*add_operator)(habana::custom_op::Registration registration, const char* torch) noexcept;
  const void* (*find_operator)(const std::string& schema, bool legacy);
  std::vector<at::Tensor> (*execute)(const void* op, const std::vector<c10::IValue>& inputs);
  void (*add_kernel)(const char* guid, CustomKernel kernel);
  // Keeps the error of a kernel that could not be registered.
  void (*note_kernel)(const char* guid, const char* error) noexcept;
  void (*set_runner)(const LibraryRunner* runner);
};

using Connect = void (*)(const Connection* connection);
constexpr const char* kConnect = "openhpu_connect";

}  // namespace openhpu
