// Operators for which PyTorch chooses or composes kernels in a way that does not serve here.
#include <ATen/TracerMode.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_fused_sdp_choice_ops.h>
#include <ATen/ops/addr.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/convolution_native.h>
#include <ATen/ops/one_hot_native.h>
#include <ATen/ops/zeros.h>

#include "call/OpKernel.h"
#include "record/Capture.h"

namespace openhpu {
namespace {

// scaled_dot_product_attention chooses its kernel by device; on hpu it makes the choice that it makes on CPU.
int64_t choose_attention(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const std::optional<at::Tensor>& mask,
    double dropout_p, bool is_causal, std::optional<double> scale, bool enable_gqa) {
  // The kernel is asked directly: it looks at metadata alone, and while torch.compile traces, tensors are fake ones,
  // which have no alias and whose sizes may be symbols.
  return at::_ops::_fused_sdp_choice::redispatch(
      c10::DispatchKeySet(c10::DispatchKey::CPU), query, key, value, mask, dropout_p, is_causal, scale, enable_gqa);
}

// PyTorch routes a backend's convolutions to the "overrideable" operators. Here they are the ordinary convolution,
// so that graphs and messages show the operator that users know.
//
// torch.jit.trace does not record `convolution`, but the `_convolution` that PyTorch's own kernel calls. Without that
// call the trace would hold the result as a constant. It is the only such operator that has a kernel of ours.
at::Tensor convolve(
    const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias, c10::IntArrayRef stride,
    c10::IntArrayRef padding, c10::IntArrayRef dilation, bool transposed, c10::IntArrayRef output_padding,
    int64_t groups) {
  if (C10_UNLIKELY(at::tracer::impl::is_dispatch_enabled()))
    return at::native::convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups);
  static auto* kernel = new OpKernel(c10::Dispatcher::singleton().findSchemaOrThrow("aten::convolution", ""));
  c10::Stack stack;
  torch::jit::push(stack, input, weight, bias, stride, padding, dilation, transposed, output_padding, groups);
  kernel->call(stack);
  return std::move(stack.front()).toTensor();
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolve_backward(
    const at::Tensor& grad_output, const at::Tensor& input, const at::Tensor& weight, c10::IntArrayRef stride,
    c10::IntArrayRef padding, c10::IntArrayRef dilation, bool transposed, c10::IntArrayRef output_padding,
    int64_t groups, std::array<bool, 3> output_mask) {
  const int64_t channels = transposed ? weight.size(1) * groups : weight.size(0);
  return at::convolution_backward(
      grad_output, input, weight, output_mask[2] ? at::OptionalIntArrayRef(channels) : std::nullopt, stride, padding,
      dilation, transposed, output_padding, groups, output_mask);
}

// Its CPU kernel recognises "in place" by the address of the tensor handle, which a boxed call does not preserve.
at::Tensor& addr_(
    at::Tensor& self, const at::Tensor& vec1, const at::Tensor& vec2, const at::Scalar& beta, const at::Scalar& alpha) {
  TORCH_CHECK(self.dim() == 2, "2D tensor expected, got ", self.dim(), "D tensor for input");
  TORCH_CHECK(
      vec1.dim() != 1 || vec2.dim() != 1 || (self.size(0) == vec1.size(0) && self.size(1) == vec2.size(0)),
      "size mismatch, input: ", self.sizes(), ", v1: ", vec1.sizes(), ", v2: ", vec2.sizes());
  return at::addr_out(self, self, vec1, vec2, beta, alpha);
}

// PyTorch makes it of others after it has looked at the values. This looks at none.
at::Tensor one_hot(const at::Tensor& self, int64_t num_classes) {
  // A capture can't look at values: there scatter_, which is made of the same classes, tells of one out of range.
  const bool looks = !lenient_indices() && !current_capture(self.device().index());
  if (looks || self.numel() == 0 || self.scalar_type() != at::kLong || num_classes < -1 || num_classes == 0)
    return at::native::one_hot(self, num_classes);
  if (num_classes == -1) num_classes = std::max<int64_t>(self.max().item<int64_t>() + 1, 0);
  auto shape = self.sizes().vec();
  shape.push_back(num_classes);
  return at::zeros(shape, self.options()).scatter_(-1, self.unsqueeze(-1), 1);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, HPU, m) {
  m.impl("_fused_sdp_choice", TORCH_FN(choose_attention));
  m.impl("convolution", TORCH_FN(convolve));
  m.impl("convolution_overrideable", TORCH_FN(at::convolution));
  m.impl("convolution_backward_overrideable", TORCH_FN(convolve_backward));
  m.impl("addr_", TORCH_FN(addr_));
  m.impl("one_hot", TORCH_FN(one_hot));
}

}  // namespace openhpu

namespace at::native {
REGISTER_HPU_DISPATCH(_fused_sdp_choice_stub, &openhpu::choose_attention);
}
