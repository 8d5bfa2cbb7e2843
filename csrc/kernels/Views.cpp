// View operators: real views, made on the host; no device work. And what looks at metadata alone.
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/is_set_to_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>

namespace openhpu {
namespace {

at::Tensor view(const at::Tensor& self, c10::IntArrayRef size) { return at::native::view(self, size); }

bool is_set_to(const at::Tensor& self, const at::Tensor& tensor) {
  const bool first = self.device().type() == c10::kHPU;
  const at::Tensor &ours = first ? self : tensor, &other = first ? tensor : self;
  TORCH_CHECK(
      other.device() == ours.device() || (other.device().is_cpu() && other.dim() == 0),
      "Expected all tensors to be on the same device, but found at least two devices, ", ours.device(), " and ",
      other.device(), "! (when checking argument `", first ? "tensor" : "self", "` of aten::is_set_to)");
  return at::native::is_set_to(self, tensor);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, HPU, m) {
  m.impl("view", TORCH_FN(view));
  m.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  m.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
  m.impl("unfold", TORCH_FN(at::native::unfold));
  m.impl("view_as_real", TORCH_FN(at::native::view_as_real));
  m.impl("view_as_complex", TORCH_FN(at::native::view_as_complex));
  m.impl("is_set_to", TORCH_FN(is_set_to));
}

}  // namespace openhpu
