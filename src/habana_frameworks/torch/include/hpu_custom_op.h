// User operators as Gaudi's older interface registers them, from descriptions of inputs and outputs. docs/custom-ops.md
// has an example. New operators use hpu_custom_op_pt2.h.
#pragma once

#include "openhpu/custom_operator.h"

namespace habana {
namespace custom_op {

enum class input_type { TENSOR, SCALAR, USER_PARAMS };

// What the argument with this index of `execute` is: an operand of the kernel, a number, or a part of the params.
struct InputDesc {
  input_type type;
  unsigned index;
};

using compute_output_shape_function = std::function<std::vector<int64_t>(const at::Stack& inputs)>;
using allocate_user_params_func = FillParamsFn;

// A result. Without a callback it has the sizes of the first tensor.
struct OutputDesc {
  unsigned index;
  c10::ScalarType dtype = c10::ScalarType::Float;
  compute_output_shape_function compute_output_shape_func = nullptr;
};

// `user_param_func` fills the kernel's params; nullptr: it has none.
struct NodeDesc {
  std::string tpc_guid;
  std::string schema_name;
  allocate_user_params_func user_param_func = nullptr;
};

class HabanaCustomOpDescriptor {
 public:
  HabanaCustomOpDescriptor() = default;
  // As registerKernel takes it.
  HabanaCustomOpDescriptor(NodeDesc node, const std::vector<InputDesc>& inputs, const std::vector<OutputDesc>& outputs)
      : node_(std::move(node)), inputs_(inputs), outputs_(outputs) {}
  // Only the core makes one of an operator.
  HabanaCustomOpDescriptor(const void* op, std::string schema, std::string guid)
      : operator_(op), node_{std::move(guid), std::move(schema), nullptr} {}

  // Throws c10::Error for an operator that is not registered, or was registered wrongly.
  static const HabanaCustomOpDescriptor& getCustomOpDescriptor(const std::string& schema) {
    return *static_cast<const HabanaCustomOpDescriptor*>(detail::find(schema, true));
  }

  // As UserCustomOpDescriptor::execute.
  std::vector<at::Tensor> execute(const std::vector<c10::IValue>& inputs) const {
    return detail::execute(operator_, inputs);
  }

  const std::string& getSchemaName() const { return node_.schema_name; }
  const std::string& getGuid() const { return node_.tpc_guid; }

 private:
  friend void registerKernel(const HabanaCustomOpDescriptor& descriptor);

  const void* operator_ = nullptr;
  NodeDesc node_;
  std::vector<InputDesc> inputs_;
  std::vector<OutputDesc> outputs_;
};

// It never throws. An error is raised when the operator is used.
inline void registerKernel(const HabanaCustomOpDescriptor& descriptor) {
  Registration registration;
  registration.schema = descriptor.node_.schema_name;
  registration.guid = descriptor.node_.tpc_guid;
  registration.fill_params = descriptor.node_.user_param_func;
  registration.legacy = true;
  for (const auto& input : descriptor.inputs_)
    if (input.type == input_type::TENSOR) registration.tensors.push_back(input.index);
  std::vector<OutputDesc> outputs(descriptor.outputs_.size());
  for (const auto& output : descriptor.outputs_) {
    if (output.index < outputs.size())
      outputs[output.index] = output;
    else
      registration.error = "an output has the index " + std::to_string(output.index) + ", but there are " +
                           std::to_string(outputs.size()) + " outputs, with indices from 0";
  }
  const size_t first = registration.tensors.empty() ? 0 : registration.tensors.front();
  registration.output_meta = [outputs = std::move(outputs), first](const at::Stack& inputs) {
    PartialOutputMetaDataVector metadata;
    for (const auto& output : outputs)
      metadata.push_back(
          {output.dtype, output.compute_output_shape_func ? output.compute_output_shape_func(inputs)
                                                          : inputs.at(first).toTensor().sizes().vec()});
    return metadata;
  };
  detail::add(std::move(registration), detail::kTorch);
}

}  // namespace custom_op
}  // namespace habana

// Registers an operator, in a function. `user_params`: NodeDesc::user_param_func.
#define REGISTER_CUSTOM_OP_ATTRIBUTES(schema, guid, inputs, outputs, user_params)        \
  {                                                                                      \
    ::habana::custom_op::registerKernel(                                                 \
        ::habana::custom_op::HabanaCustomOpDescriptor(                                   \
            ::habana::custom_op::NodeDesc{guid, schema, user_params}, inputs, outputs)); \
  }
