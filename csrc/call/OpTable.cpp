// The one table of what operators need beyond the generic kernel.
#include <string>
#include <unordered_map>

#include "call/OpKernel.h"

namespace openhpu {

const OpTraits& traits_of(const std::string& name) {
  static const OpTraits generic{};
  static const auto* table = new std::unordered_map<std::string, OpTraits>{
      // Sizes given by Scalar arguments.
      {"aten::arange.start_out", {.numbers_matter = true, .native = true}},
      {"aten::range.out", {.numbers_matter = true, .native = true}},
      // Output sizes depend on values, though PyTorch's tags do not say so.
      {"aten::_ctc_loss", {.always_wait = true}},
      {"aten::_ctc_loss.Tensor", {.always_wait = true, .cpu_operands = true}},
      {"aten::linalg_lstsq", {.always_wait = true}},
      {"aten::linalg_lstsq.out", {.always_wait = true}},
      {"aten::histogramdd_bin_edges", {.always_wait = true}},
      {"aten::_histogramdd_bin_edges", {.always_wait = true}},
      {"aten::segment_reduce", {.always_wait = true}},
      // Index operands may be CPU tensors of any size.
      {"aten::index.Tensor", {.masks_wait = true, .cpu_operands = true}},
      {"aten::index.Tensor_out", {.masks_wait = true, .cpu_operands = true}},
      {"aten::_index_put_impl_", {.cpu_operands = true}},
      {"aten::index_put_", {.cpu_operands = true}},
      // One number for each tensor of the lists, as PyTorch's CUDA kernels take them.
      {"aten::_foreach_addcmul.Tensor", {.cpu_operands = true}},
      {"aten::_foreach_addcmul_.Tensor", {.cpu_operands = true}},
      {"aten::_foreach_addcdiv.Tensor", {.cpu_operands = true}},
      {"aten::_foreach_addcdiv_.Tensor", {.cpu_operands = true}},
      {"aten::_pack_padded_sequence", {.always_wait = true, .cpu_operands = true}},
      // Answers from metadata.
      {"aten::is_set_to", {.host_metadata = true}},
      {"aten::_fused_sdp_choice", {.host_metadata = true}},
      // Composites in PyTorch that are one operator here: the choice among PyTorch's convolutions is the worker's.
      {"aten::convolution", {.native = true}},
      {"aten::convolution_backward", {.native = true}},
      // Its result is complex, and it computes nothing: two floats beside each other.
      {"aten::complex.out", {.native = true}},
      // Copies and factories need no row in the table of native operators.
      {"aten::copy_", {.native = true}},
      {"aten::_foreach_copy_", {.native = true}},
      {"aten::_foreach_zero_", {.native = true}},
      {"aten::fill_.Scalar", {.native = true}},
      {"aten::fill_.Tensor", {.native = true}},
      {"aten::zero_", {.native = true}},
      {"aten::eye.out", {.native = true}},
      {"aten::eye.m_out", {.native = true}},
      {"aten::linspace.out", {.native = true}},
      {"aten::logspace.out", {.native = true}},
      {"aten::tril_indices", {.native = true}},
      {"aten::triu_indices", {.native = true}},
      // Running statistics.
      {"aten::native_batch_norm", {.undeclared_writes = {.arguments = 0b11000, .when = 5}}},
      {"aten::native_batch_norm.out", {.undeclared_writes = {.arguments = 0b11000, .when = 5}}},
      {"aten::batch_norm_update_stats", {.undeclared_writes = {.arguments = 0b110}}},
      {"aten::batch_norm_update_stats.out", {.undeclared_writes = {.arguments = 0b110}}},
      // What scripts ask of a loss before they read it.
      {"aten::abs", {.exact = true}},
      {"aten::neg", {.exact = true}},
      {"aten::isnan", {.exact = true}},
      {"aten::isfinite", {.exact = true}},
      {"aten::isinf", {.exact = true}},
      {"aten::bitwise_and.Tensor", {.exact = true}},
      {"aten::bitwise_or.Tensor", {.exact = true}},
      {"aten::bitwise_not", {.exact = true}},
      {"aten::any", {.exact = true}},
      {"aten::all", {.exact = true}},
      {"aten::add.Tensor", {.exact = true}},
      {"aten::sub.Tensor", {.exact = true}},
      {"aten::mul.Tensor", {.exact = true}},
      {"aten::div.Tensor", {.exact = true}},
      {"aten::maximum", {.exact = true}},
      {"aten::minimum", {.exact = true}},
      {"aten::eq.Tensor", {.exact = true}},
      {"aten::eq.Scalar", {.exact = true}},
      {"aten::ne.Tensor", {.exact = true}},
      {"aten::ne.Scalar", {.exact = true}},
      {"aten::lt.Tensor", {.exact = true}},
      {"aten::lt.Scalar", {.exact = true}},
      {"aten::le.Tensor", {.exact = true}},
      {"aten::le.Scalar", {.exact = true}},
      {"aten::gt.Tensor", {.exact = true}},
      {"aten::gt.Scalar", {.exact = true}},
      {"aten::ge.Tensor", {.exact = true}},
      {"aten::ge.Scalar", {.exact = true}},
      // Collectives of captured graphs.
      {"hccl::collective_", {.collective = true, .native = true}},
      // Gaudi's fused attention, by the name of PyTorch's CPU kernel for it.
      {"aten::_scaled_dot_product_flash_attention_for_cpu", {.native = true}},
      {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", {.native = true}},
  };
  // torchvision's operators are native on Gaudi; how many boxes nms keeps depends on the boxes.
  static const OpTraits vision{.native = true};
  static const OpTraits nms{.always_wait = true, .native = true};
  if (name.rfind("torchvision::", 0) == 0) return name == "torchvision::nms" ? nms : vision;
  // The library of random operators with a seed.
  static const OpTraits seeded{.seeded = true};
  if (name.rfind("openhpu::", 0) == 0) return seeded;
  auto it = table->find(name);
  return it == table->end() ? generic : it->second;
}

bool is_single_operator(const std::string& name) {
  // mode.values names the devices it accepts; conj_physical_ calls a kernel that exists per device; mv is made of addmv_,
  // which has fewer dtypes on a Gaudi. The others are made of operators with results for them to fill.
  return name == "aten::convolution_backward" || name == "aten::mode.values" ||
      name == "aten::conj_physical_" || name == "aten::mv" ||
      name == "aten::abs" || name == "aten::isinf" || name == "aten::isfinite" || name.rfind("aten::_foreach_", 0) == 0;
}

}  // namespace openhpu
