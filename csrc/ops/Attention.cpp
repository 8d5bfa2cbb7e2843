// scaled_dot_product_attention chooses its kernel by device; on hpu it makes the choice that it makes on CPU.
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_fused_sdp_choice.h>

#include <c10/core/StorageImpl.h>

namespace openhpu {
namespace {

int64_t choose(
    const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, const std::optional<at::Tensor>& mask,
    double dropout_p, bool is_causal, std::optional<double> scale, bool enable_gqa) {
  // CPU tensors of the same description, without memory: the choice depends on metadata alone.
  static auto* nothing = new c10::Storage(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), 0, c10::DataPtr(nullptr, c10::Device(c10::kCPU)), nullptr, false));
  auto alias = [](const at::Tensor& t) {
    if (t.device().type() != c10::kHPU || t.is_nested()) return t;
    auto impl = c10::make_intrusive<c10::TensorImpl>(
        c10::Storage(*nothing), c10::DispatchKeySet(c10::DispatchKey::CPU), t.dtype());
    impl->set_sizes_and_strides(t.sizes(), t.strides(), t.storage_offset());
    // The choice also asks whether gradients will be needed.
    if (t.requires_grad()) impl->set_requires_grad(true);
    return at::Tensor(std::move(impl));
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
