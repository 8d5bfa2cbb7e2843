// PyTorch routes a backend's convolutions to the "overrideable" operators. Here they are the ordinary convolution,
// so that graphs and messages show the operator that users know.
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>

namespace openhpu {
namespace {

at::Tensor forward(
    const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias, c10::IntArrayRef stride,
    c10::IntArrayRef padding, c10::IntArrayRef dilation, bool transposed, c10::IntArrayRef output_padding,
    int64_t groups) {
  return at::convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups);
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
  m.impl("convolution_overrideable", TORCH_FN(forward));
  m.impl("convolution_backward_overrideable", TORCH_FN(backward));
}

}  // namespace openhpu
