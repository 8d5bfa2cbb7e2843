// PyTorch routes a backend's convolutions to the "overrideable" operators. Here they are the ordinary convolution,
// so that graphs and messages show the operator that users know.
#include <ATen/TracerMode.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/convolution_native.h>

#include "call/OpKernel.h"

namespace openhpu {
namespace {

// torch.jit.trace does not record `convolution`, but the `_convolution` that PyTorch's own kernel calls. Without that call
// the trace would hold the result as a constant. It is the only such operator that has a kernel of ours.
at::Tensor convolution(
    const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias, c10::IntArrayRef stride,
    c10::IntArrayRef padding, c10::IntArrayRef dilation, bool transposed, c10::IntArrayRef output_padding,
    int64_t groups) {
  if (C10_UNLIKELY(at::tracer::impl::is_dispatch_enabled()))
    return at::native::convolution(
        input, weight, bias, stride, padding, dilation, transposed, output_padding, groups);
  static auto* kernel = new OpKernel(c10::Dispatcher::singleton().findSchemaOrThrow("aten::convolution", ""));
  c10::Stack stack;
  torch::jit::push(stack, input, weight, bias, stride, padding, dilation, transposed, output_padding, groups);
  kernel->call(stack);
  return std::move(stack.front()).toTensor();
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> backward(
    const at::Tensor& grad_output, const at::Tensor& input, const at::Tensor& weight, c10::IntArrayRef stride,
    c10::IntArrayRef padding, c10::IntArrayRef dilation, bool transposed, c10::IntArrayRef output_padding,
    int64_t groups, std::array<bool, 3> output_mask) {
  const int64_t channels = transposed ? weight.size(1) * groups : weight.size(0);
  std::optional<std::vector<int64_t>> bias_sizes;
  if (output_mask[2]) bias_sizes = std::vector<int64_t>{channels};
  return at::convolution_backward(
      grad_output, input, weight, bias_sizes ? at::OptionalIntArrayRef(*bias_sizes) : std::nullopt, stride, padding,
      dilation, transposed, output_padding, groups, output_mask);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, HPU, m) {
  m.impl("convolution", TORCH_FN(convolution));
  m.impl("convolution_overrideable", TORCH_FN(at::convolution));
  m.impl("convolution_backward_overrideable", TORCH_FN(backward));
}

}  // namespace openhpu
