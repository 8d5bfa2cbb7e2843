// In-place operators whose CPU kernels recognise "in place" by the address of the tensor handle, which a boxed call does
// not preserve.
#include <ATen/ops/addr.h>

namespace openhpu {
namespace {

at::Tensor& addr_(
    at::Tensor& self, const at::Tensor& vec1, const at::Tensor& vec2, const at::Scalar& beta, const at::Scalar& alpha) {
  TORCH_CHECK(self.dim() == 2, "2D tensor expected, got ", self.dim(), "D tensor for input");
  TORCH_CHECK(
      vec1.dim() != 1 || vec2.dim() != 1 || (self.size(0) == vec1.size(0) && self.size(1) == vec2.size(0)),
      "size mismatch, input: ", self.sizes(), ", v1: ", vec1.sizes(), ", v2: ", vec2.sizes());
  return at::addr_out(self, self, vec1, vec2, beta, alpha);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, HPU, m) { m.impl("addr_", TORCH_FN(addr_)); }

}  // namespace openhpu
