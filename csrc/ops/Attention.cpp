// scaled_dot_product_attention chooses its kernel by device; on hpu it makes the choice that it makes on CPU.
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_fused_sdp_choice.h>

#include "ops/Alias.h"

namespace openhpu {
namespace {

int64_t choose(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const std::optional<at::Tensor>& mask,
    double dropout_p, bool is_causal, std::optional<double> scale, bool enable_gqa) {
  auto alias = [](const at::Tensor& t) {
    auto a = t.device().type() == c10::kHPU && !t.is_nested() ? cpu_alias(t) : t;
    // The choice also asks whether gradients will be needed.
    if (t.requires_grad() && at::isFloatingType(t.scalar_type())) {
      a = at::Tensor(a.unsafeGetTensorImpl()->shallow_copy_and_detach(c10::VariableVersion(0), true));
    }
    return a;
  };
  std::optional<at::Tensor> mask_alias;
  if (mask.has_value() && mask->defined()) mask_alias = alias(*mask);
  return at::_fused_sdp_choice(
      alias(query), alias(key), alias(value), mask_alias, dropout_p, is_causal, scale, enable_gqa);
}

}  // namespace
}  // namespace openhpu

namespace at::native {
REGISTER_HPU_DISPATCH(_fused_sdp_choice_stub, &openhpu::choose);
}
