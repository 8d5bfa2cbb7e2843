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

// Operators whose kernels are in a library of GC_KERNEL_PATH (tests/tpc/test_legacy_operators.py).
struct AffineParams {
  float factor;
};
bool register_of_libraries() {
  using habana::custom_op::input_type;
  using habana::custom_op::InputDesc;
  using habana::custom_op::OutputDesc;
  const std::vector<InputDesc> one{{input_type::TENSOR, 0}};
  const std::vector<InputDesc> two{{input_type::TENSOR, 0}, {input_type::TENSOR, 1}};
  const std::vector<InputDesc> with_factor{{input_type::TENSOR, 0}, {input_type::USER_PARAMS, 1}};
  const auto rows = [](const at::Stack& stack) -> std::vector<int64_t> { return {stack[0].toTensor().size(0), 1}; };
  const auto factor = [](const at::Stack& stack, size_t& size) {
    HPU_PARAMS_STUB(AffineParams);
    params->factor = stack[1].toScalar().to<float>();
    return params;
  };
  const std::vector<OutputDesc> like{OutputDesc{0}};
  const std::vector<OutputDesc> sums{OutputDesc{0}, OutputDesc{1, c10::ScalarType::Float, rows}};
  const std::vector<OutputDesc> whole{OutputDesc{0, c10::ScalarType::Long}};
  REGISTER_CUSTOM_OP_ATTRIBUTES("openhpu_legacy::affine", "legacy_affine_f32", with_factor, like, factor);
  REGISTER_CUSTOM_OP_ATTRIBUTES("openhpu_legacy::sums", "legacy_sums_f32", one, sums, nullptr);
  REGISTER_CUSTOM_OP_ATTRIBUTES("openhpu_legacy::accumulate_", "legacy_accumulate_f32", two, like, nullptr);
  REGISTER_CUSTOM_OP_ATTRIBUTES("openhpu_legacy::count_", "legacy_count_i32", two, whole, nullptr);
  return true;
}
std::vector<at::Tensor> execute_of_library(const char* name, const std::vector<c10::IValue>& inputs) {
  static const bool registered = register_of_libraries();
  TORCH_CHECK(registered, name, " is not registered");
  return habana::custom_op::HabanaCustomOpDescriptor::getCustomOpDescriptor(name).execute(inputs);
}
at::Tensor affine(const at::Tensor& self, const c10::Scalar& factor) {
  return execute_of_library("openhpu_legacy::affine", {self, factor})[0];
}
std::tuple<at::Tensor, at::Tensor> sums(const at::Tensor& self) {
  const auto results = execute_of_library("openhpu_legacy::sums", {self});
  return {results[0], results[1]};
}
at::Tensor& accumulate_(at::Tensor& self, const at::Tensor& other) {
  execute_of_library("openhpu_legacy::accumulate_", {self, other});
  return self;
}
at::Tensor& count_(at::Tensor& self, const at::Tensor& other) {
  execute_of_library("openhpu_legacy::count_", {self, other});
  return self;
}
at::Tensor affine_meta(const at::Tensor& self, const c10::Scalar&) { return at::empty_like(self); }
std::tuple<at::Tensor, at::Tensor> sums_meta(const at::Tensor& self) {
  return {at::empty_like(self), at::empty_symint({self.sym_size(0), 1}, self.options())};
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
  m.def("affine(Tensor self, Scalar factor) -> Tensor");
  m.def("sums(Tensor self) -> (Tensor, Tensor)");
  m.def("accumulate_(Tensor(a!) self, Tensor other) -> Tensor(a!)");
  m.def("count_(Tensor(a!) self, Tensor other) -> Tensor(a!)");
}
TORCH_LIBRARY_IMPL(openhpu_legacy, HPU, m) {
  m.impl("clamp", clamp);
  m.impl("described", described);
  m.impl("affine", affine);
  m.impl("sums", sums);
  m.impl("accumulate_", accumulate_);
  m.impl("count_", count_);
}
TORCH_LIBRARY_IMPL(openhpu_legacy, Meta, m) {
  m.impl("affine", affine_meta);
  m.impl("sums", sums_meta);
}
