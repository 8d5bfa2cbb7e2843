// The operators of the kernels in this folder, as Gaudi's headers register them. The kernels are those of the library
// that `openhpu tpc build` makes: on the CPU and on a Gaudi the guid finds it in GC_KERNEL_PATH.
//
// All tensors are float32 with 2 dimensions, rows and columns. The weight of rms_norm has 1 dimension, and tensors of
// silu_and_mul are bfloat16.
#include "hpu_custom_op_pt2.h"
#include <torch/extension.h>

namespace {

using habana::PartialOutputMetaDataVector;

struct RmsNormParams {
  float epsilon;
};

PartialOutputMetaDataVector like(const at::Stack& inputs, std::vector<size_t> which) {
  PartialOutputMetaDataVector results;
  for (const size_t i : which) {
    const auto tensor = inputs[i].toTensor();
    results.push_back({tensor.scalar_type(), tensor.sizes().vec()});
  }
  return results;
}
PartialOutputMetaDataVector like_first(const at::Stack& inputs) { return like(inputs, {0}); }
PartialOutputMetaDataVector of_product(const at::Stack& inputs) {
  const auto a = inputs[0].toTensor(), b = inputs[1].toTensor();
  TORCH_CHECK(
      a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(0), "product takes [m, k] and [k, n]; it got ", a.sizes(),
      " and ", b.sizes());
  return {{a.scalar_type(), {a.size(0), b.size(1)}}};
}
PartialOutputMetaDataVector of_rms_norm(const at::Stack& inputs) {
  const auto x = inputs[0].toTensor();
  return {{x.scalar_type(), x.sizes().vec()}, {x.scalar_type(), {x.size(0), 1}}};
}
PartialOutputMetaDataVector half_as_wide(const at::Stack& inputs) {
  const auto x = inputs[0].toTensor();
  TORCH_CHECK(
      x.dim() == 2 && x.size(1) % 2 == 0, "silu_and_mul takes [n, 2 * d], which are gate and up; it got ", x.sizes());
  return {{x.scalar_type(), {x.size(0), x.size(1) / 2}}};
}
PartialOutputMetaDataVector of_rms_norm_backward(const at::Stack& inputs) { return like(inputs, {1, 2}); }

std::shared_ptr<void> rms_norm_params(const at::Stack& inputs, size_t& size) {
  HPU_PARAMS_STUB(RmsNormParams);
  params->epsilon = static_cast<float>(inputs.back().toDouble());
  return params;
}

bool register_operators() {
  using habana::custom_op::registerUserCustomOp;
  registerUserCustomOp("tpc_example::silu", "silu_fwd_f32", like_first, nullptr);
  registerUserCustomOp("tpc_example::silu_backward", "silu_bwd_f32", like_first, nullptr);
  registerUserCustomOp("tpc_example::product", "product_f32", of_product, nullptr);
  registerUserCustomOp("tpc_example::row_softmax", "row_softmax_f32", like_first, nullptr);
  registerUserCustomOp("tpc_example::rms_norm", "rmsnorm_fwd_f32", of_rms_norm, rms_norm_params);
  registerUserCustomOp("tpc_example::rms_norm_backward", "rmsnorm_bwd_f32", of_rms_norm_backward, nullptr);
  registerUserCustomOp("tpc_example::silu_and_mul", "silu_and_mul_bf16", half_as_wide, nullptr);
  return true;
}
const bool registered = register_operators();

std::vector<at::Tensor> execute(const std::string& name, std::vector<c10::IValue> inputs) {
  auto descriptor = habana::custom_op::UserCustomOpDescriptor::getUserCustomOpDescriptor("tpc_example::" + name);
  return descriptor.execute(inputs);
}

using Two = std::tuple<at::Tensor, at::Tensor>;
using at::Tensor;

Tensor silu(const Tensor& x) { return execute("silu", {x})[0]; }
Tensor silu_backward(const Tensor& grad, const Tensor& x) { return execute("silu_backward", {grad, x})[0]; }
Tensor product(const Tensor& a, const Tensor& b) { return execute("product", {a, b})[0]; }
Tensor row_softmax(const Tensor& x) { return execute("row_softmax", {x})[0]; }
Tensor silu_and_mul(const Tensor& x) { return execute("silu_and_mul", {x})[0]; }
Two rms_norm(const Tensor& x, const Tensor& weight, double epsilon) {
  const auto results = execute("rms_norm", {x, weight, epsilon});
  return {results[0], results[1]};
}
Two rms_norm_backward(const Tensor& grad, const Tensor& x, const Tensor& weight, const Tensor& inverse) {
  const auto results = execute("rms_norm_backward", {grad, x, weight, inverse});
  return {results[0], results[1]};
}

// For torch.compile and fake tensors. Results are contiguous.
Tensor meta_like(const Tensor& x) { return at::empty_symint(x.sym_sizes(), x.options()); }
Tensor meta_silu_backward(const Tensor& grad, const Tensor&) { return meta_like(grad); }
Tensor meta_product(const Tensor& a, const Tensor& b) {
  return at::empty_symint({a.sym_size(0), b.sym_size(1)}, a.options());
}
Tensor meta_silu_and_mul(const Tensor& x) { return at::empty_symint({x.sym_size(0), x.sym_size(1) / 2}, x.options()); }
Two meta_rms_norm(const Tensor& x, const Tensor&, double) {
  return {meta_like(x), at::empty_symint({x.sym_size(0), 1}, x.options())};
}
Two meta_rms_norm_backward(const Tensor&, const Tensor& x, const Tensor& weight, const Tensor&) {
  return {meta_like(x), meta_like(weight)};
}

}  // namespace

TORCH_LIBRARY(tpc_example, m) {
  m.def("silu(Tensor x) -> Tensor");
  m.def("silu_backward(Tensor grad, Tensor x) -> Tensor");
  m.def("product(Tensor a, Tensor b) -> Tensor");
  m.def("row_softmax(Tensor x) -> Tensor");
  m.def("silu_and_mul(Tensor x) -> Tensor");
  m.def("rms_norm(Tensor x, Tensor weight, float epsilon) -> (Tensor, Tensor)");
  m.def("rms_norm_backward(Tensor grad, Tensor x, Tensor weight, Tensor inverse) -> (Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(tpc_example, HPU, m) {
  m.impl("silu", silu);
  m.impl("silu_backward", silu_backward);
  m.impl("product", product);
  m.impl("row_softmax", row_softmax);
  m.impl("silu_and_mul", silu_and_mul);
  m.impl("rms_norm", rms_norm);
  m.impl("rms_norm_backward", rms_norm_backward);
}
TORCH_LIBRARY_IMPL(tpc_example, Meta, m) {
  m.impl("silu", meta_like);
  m.impl("silu_backward", meta_silu_backward);
  m.impl("product", meta_product);
  m.impl("row_softmax", meta_like);
  m.impl("silu_and_mul", meta_silu_and_mul);
  m.impl("rms_norm", meta_rms_norm);
  m.impl("rms_norm_backward", meta_rms_norm_backward);
}
