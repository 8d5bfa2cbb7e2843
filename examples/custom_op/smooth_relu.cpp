// A user operator as Gaudi's headers register it: smooth_relu(x, beta) = log(1 + exp(beta * x)) / beta, with its
// gradient. The kernels are functions of C++ at the end.
#include "hpu_custom_op_pt2.h"
#include <torch/extension.h>

#include <cmath>

#include "openhpu/custom_kernel.h"

namespace {

struct Params {
  float beta;
};

habana::PartialOutputMetaDataVector like_input(const at::Stack& inputs) {
  const auto x = inputs[0].toTensor();
  return {{x.scalar_type(), x.sizes().vec()}};
}

std::shared_ptr<void> fill_params(const at::Stack& inputs, size_t& size) {
  HPU_PARAMS_STUB(Params);
  params->beta = static_cast<float>(inputs.back().toDouble());
  return params;
}

bool register_operators() {
  using habana::custom_op::registerUserCustomOp;
  registerUserCustomOp("example::smooth_relu", "smooth_relu_fwd_f32", like_input, fill_params);
  registerUserCustomOp("example::smooth_relu_backward", "smooth_relu_bwd_f32", like_input, fill_params);
  return true;
}
const bool registered = register_operators();

at::Tensor execute(const std::string& name, std::vector<c10::IValue> inputs) {
  auto descriptor = habana::custom_op::UserCustomOpDescriptor::getUserCustomOpDescriptor(name);
  return descriptor.execute(inputs)[0];
}
at::Tensor smooth_relu(const at::Tensor& x, double beta) { return execute("example::smooth_relu", {x, beta}); }
at::Tensor smooth_relu_backward(const at::Tensor& grad, const at::Tensor& x, double beta) {
  return execute("example::smooth_relu_backward", {grad, x, beta});
}

// For torch.compile and fake tensors.
at::Tensor smooth_relu_meta(const at::Tensor& x, double) { return at::empty(x.sizes(), x.options()); }
at::Tensor smooth_relu_backward_meta(const at::Tensor& grad, const at::Tensor&, double) {
  return at::empty(grad.sizes(), grad.options());
}

// The kernels. On a Gaudi they are those of the library in GC_KERNEL_PATH.
void forward(const openhpu::KernelCall& call) {
  const auto* x = call.input<float>(0);
  auto* y = call.output<float>(0);
  const float beta = call.params_as<Params>().beta;
  for (int64_t i = 0; i < call.outputs[0].numel(); ++i) y[i] = std::log1p(std::exp(beta * x[i])) / beta;
}
void backward(const openhpu::KernelCall& call) {
  const auto* grad = call.input<float>(0);
  const auto* x = call.input<float>(1);
  auto* y = call.output<float>(0);
  const float beta = call.params_as<Params>().beta;
  for (int64_t i = 0; i < call.outputs[0].numel(); ++i) y[i] = grad[i] / (1 + std::exp(-beta * x[i]));
}
OPENHPU_CUSTOM_KERNEL("smooth_relu_fwd_f32", forward);
OPENHPU_CUSTOM_KERNEL("smooth_relu_bwd_f32", backward);

}  // namespace

TORCH_LIBRARY(example, m) {
  m.def("smooth_relu(Tensor x, float beta) -> Tensor");
  m.def("smooth_relu_backward(Tensor grad, Tensor x, float beta) -> Tensor");
}
TORCH_LIBRARY_IMPL(example, HPU, m) {
  m.impl("smooth_relu", smooth_relu);
  m.impl("smooth_relu_backward", smooth_relu_backward);
}
TORCH_LIBRARY_IMPL(example, Meta, m) {
  m.impl("smooth_relu", smooth_relu_meta);
  m.impl("smooth_relu_backward", smooth_relu_backward_meta);
}
