// scaled_dot_product_attention chooses its kernel by device; on hpu it makes the choice that it makes on CPU.
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_fused_sdp_choice_ops.h>

namespace openhpu {
namespace {

int64_t choose(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const std::optional<at::Tensor>& mask,
    double dropout_p, bool is_causal, std::optional<double> scale, bool enable_gqa) {
  // The kernel is asked directly: it looks at metadata alone, and while torch.compile traces, tensors are fake ones,
  // which have no alias and whose sizes may be symbols.
  return at::_ops::_fused_sdp_choice::redispatch(
      c10::DispatchKeySet(c10::DispatchKey::CPU), query, key, value, mask, dropout_p, is_causal, scale, enable_gqa);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, HPU, m) { m.impl("_fused_sdp_choice", TORCH_FN(choose)); }

}  // namespace openhpu

namespace at::native {
REGISTER_HPU_DISPATCH(_fused_sdp_choice_stub, &openhpu::choose);
}
