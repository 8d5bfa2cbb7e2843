// User operators in eager mode, lazy mode, HPU graphs and torch.compile: registerUserCustomOp and
// UserCustomOpDescriptor, as Gaudi's documentation describes them ("PyTorch CustomOp API"). docs/custom-ops.md has an
// example.
#pragma once

#include "openhpu/custom_operator.h"

namespace habana {
namespace custom_op {

// Registers an operator. Its schema and its kernel at the key HPU are the caller's, by TORCH_LIBRARY.
// `schema`: the schema's name, "custom_op::custom_add". `guid`: the kernel's name. `output_meta`: dtype and sizes of
// each result, from the operator's inputs. `fill_params`: the kernel's params; nullptr: it has none.
// It never throws, so that an initialiser may call it. An error is raised when the operator is used.
inline void registerUserCustomOp(
    const std::string& schema, const std::string& guid, OutputMetaFn output_meta, FillParamsFn fill_params) {
  Registration registration;
  registration.schema = schema;
  registration.guid = guid;
  registration.output_meta = std::move(output_meta);
  registration.fill_params = std::move(fill_params);
  detail::add(std::move(registration), detail::kTorch);
}

class UserCustomOpDescriptor {
 public:
  UserCustomOpDescriptor() = default;
  // Only the core makes one of an operator.
  UserCustomOpDescriptor(const void* op, std::string schema, std::string guid)
      : operator_(op), schema_(std::move(schema)), guid_(std::move(guid)) {}

  // Throws c10::Error for an operator that is not registered, or was registered wrongly.
  static const UserCustomOpDescriptor& getUserCustomOpDescriptor(const std::string& schema) {
    return *static_cast<const UserCustomOpDescriptor*>(detail::find(schema, false));
  }

  // Queues or records one call of the kernel, and returns its results. `inputs`: in the order of the schema; the kernel
  // gets the tensors among them. Throws c10::Error.
  std::vector<at::Tensor> execute(const std::vector<c10::IValue>& inputs) const {
    return detail::execute(operator_, inputs);
  }

  const std::string& getSchemaName() const { return schema_; }
  const std::string& getGuid() const { return guid_; }

 private:
  const void* operator_ = nullptr;
  std::string schema_, guid_;
};

}  // namespace custom_op
}  // namespace habana
