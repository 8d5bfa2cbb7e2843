// A user operator of the tests, by hpu_custom_op.h.
#include "hpu_custom_op.h"
#include <torch/extension.h>
#include <perf_lib_layer_params.h>
#include <synapse_common_types.hpp>

#include "openhpu/custom_kernel.h"

namespace {

void clamp_kernel(const openhpu::KernelCall& call) {
  const auto* x = call.input<float>(0);
  auto* y = call.output<float>(0);
  const float threshold = call.params_as<ns_ReluKernel::Params>().threshold.f;
  for (int64_t i = 0; i < call.outputs[0].numel(); ++i) y[i] = x[i] > threshold ? x[i] : 0;
}
OPENHPU_CUSTOM_KERNEL("test_clamp_f32", clamp_kernel);

bool register_legacy() {
  habana::custom_op::InputDesc self{habana::custom_op::input_type::TENSOR, 0};
  habana::custom_op::InputDesc threshold{habana::custom_op::input_type::USER_PARAMS, 1};
  std::vector<habana::custom_op::InputDesc> inputs{self, threshold};
  auto sizes = [](const at::Stack& stack) -> std::vector<int64_t> { return stack[0].toTensor().sizes().vec(); };
  habana::custom_op::OutputDesc result{0, c10::ScalarType::Float, sizes};
  std::vector<habana::custom_op::OutputDesc> outputs{result};
  auto user_params = [](const at::Stack& stack, size_t& size) {
    HPU_PARAMS_STUB(ns_ReluKernel::Params);
    params->threshold.f = stack[1].toScalar().to<float>();
    return params;
  };
  REGISTER_CUSTOM_OP_ATTRIBUTES("openhpu_legacy::clamp", "test_clamp_f32", inputs, outputs, user_params);
  // The same without the macro.
  habana::custom_op::NodeDesc node;
  node.tpc_guid = "test_clamp_f32";
  node.schema_name = "openhpu_legacy::described";
  node.user_param_func = user_params;
  habana::custom_op::registerKernel(habana::custom_op::HabanaCustomOpDescriptor{node, inputs, outputs});
  return true;
}

at::Tensor execute(const char* name, torch::Tensor self, c10::Scalar threshold) {
  static bool registered = register_legacy();
  TORCH_CHECK(registered, "clamp is not registered");
  std::vector<c10::IValue> inputs{self, threshold};
  auto descriptor = habana::custom_op::HabanaCustomOpDescriptor::getCustomOpDescriptor(name);
  std::vector<at::Tensor> output = descriptor.execute(inputs);
  return output[0];
}
at::Tensor clamp(torch::Tensor self, c10::Scalar threshold) {
  return execute("openhpu_legacy::clamp", self, threshold);
}
at::Tensor described(torch::Tensor self, c10::Scalar threshold) {
  return execute("openhpu_legacy::described", self, threshold);
}

}  // namespace

TORCH_LIBRARY(openhpu_legacy, m) {
  m.def("clamp(Tensor self, Scalar threshold) -> Tensor");
  m.def("described(Tensor self, Scalar threshold) -> Tensor");
}
TORCH_LIBRARY_IMPL(openhpu_legacy, HPU, m) {
  m.impl("clamp", clamp);
  m.impl("described", described);
}
