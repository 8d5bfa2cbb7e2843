// PyTorch's fused SGD for the CPU is wrong in bfloat16 and half (2.13: vectorised elements of the parameter are left as
// they were). For these dtypes the step is made of the same elementwise operators as the plain loop in torch.optim.

#include "ops/OpKernel.h"

namespace openhpu {
namespace {

struct Options {
  double weight_decay, momentum, lr, dampening;
  bool nesterov, maximize, first_step;
};

void step(at::Tensor param, at::Tensor grad, const at::Tensor& buffer, const at::Tensor& grad_scale, const Options& o) {
  if (grad_scale.defined()) grad.div_(grad_scale);
  auto d = o.maximize ? grad.neg() : grad;
  if (o.weight_decay != 0) d = d.add(param, o.weight_decay);
  if (o.momentum != 0) {
    if (o.first_step)
      buffer.copy_(d);
    else
      buffer.mul_(o.momentum).add_(d, 1 - o.dampening);
    d = o.nesterov ? d.add(buffer, o.momentum) : buffer;
  }
  param.add_(d, -o.lr);
}

at::Tensor optional_tensor(const c10::IValue& v) { return v.isNone() ? at::Tensor() : v.toTensor(); }

void fused_sgd(const c10::OperatorHandle& op, c10::DispatchKeySet ks, c10::Stack* stack) {
  constexpr size_t kArgs = 12;
  const auto* args = stack->data() + stack->size() - kArgs;
  const auto params = args[0].toTensorVector();
  const auto type = params.empty() ? at::kFloat : params[0].scalar_type();
  if (type != at::kBFloat16 && type != at::kHalf) {
    static auto* plain = new OpKernel(c10::Dispatcher::singleton().findSchemaOrThrow("aten::_fused_sgd_", ""));
    static auto* tensor_lr = new OpKernel(c10::Dispatcher::singleton().findSchemaOrThrow("aten::_fused_sgd_", "tensor_lr"));
    (*(op.operator_name().overload_name.empty() ? plain : tensor_lr))(op, ks, stack);
    return;
  }
  const auto grads = args[1].toTensorVector();
  const auto buffers = args[2].toTensorVector();
  const double lr = args[5].isTensor() ? args[5].toTensor().item<double>() : args[5].toDouble();
  const Options options{args[3].toDouble(), args[4].toDouble(), lr, args[6].toDouble(),
                        args[7].toBool(), args[8].toBool(), args[9].toBool()};
  const auto grad_scale = optional_tensor(args[10]);
  const auto found_inf = optional_tensor(args[11]);
  const bool skip = found_inf.defined() && found_inf.item<double>() == 1.0;
  for (size_t i = 0; i < params.size() && !skip; ++i)
    step(params[i], grads[i], i < buffers.size() ? buffers[i] : at::Tensor(), grad_scale, options);
  stack->resize(stack->size() - kArgs);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, HPU, m) {
  m.impl("_fused_sgd_", torch::CppFunction::makeFromBoxedFunction<&fused_sgd>());
  m.impl("_fused_sgd_.tensor_lr", torch::CppFunction::makeFromBoxedFunction<&fused_sgd>());
}

}  // namespace openhpu
