// The one table of what operators need beyond the generic kernel.
#include "call/OpKernel.h"
#include "run/UserKernel.h"

namespace openhpu {

const OpTraits& traits_of(const std::string& name) {
  static const OpTraits generic{};
  static const auto* table = [] {
    auto* rows = new std::unordered_map<std::string, OpTraits>{
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
        // Composites in PyTorch that are one operator here: the choice among PyTorch's convolutions is the worker's.
        {"aten::convolution", {.native = true}},
        {"aten::convolution_backward", {.native = true}},
        // Its result is complex, and it computes nothing: two floats beside each other.
        {"aten::complex.out", {.native = true}},
        // Running statistics.
        {"aten::native_batch_norm", {.undeclared_writes = {.arguments = 0b11000, .when = 5}}},
        {"aten::native_batch_norm.out", {.undeclared_writes = {.arguments = 0b11000, .when = 5}}},
        {"aten::batch_norm_update_stats", {.undeclared_writes = {.arguments = 0b110}}},
        {"aten::batch_norm_update_stats.out", {.undeclared_writes = {.arguments = 0b110}}},
        // Collectives of captured graphs.
        {"hccl::collective_", {.collective = true, .native = true}},
        // Gaudi's fused attention, by the name of PyTorch's CPU kernel for it.
        {"aten::_scaled_dot_product_flash_attention_for_cpu", {.native = true}},
        {"aten::_scaled_dot_product_flash_attention_for_cpu_backward", {.native = true}},
    };
    // Copies and factories need no row in the table of native operators.
    for (const char* name :
         {"aten::copy_", "aten::_foreach_copy_", "aten::_foreach_zero_", "aten::fill_.Scalar", "aten::fill_.Tensor",
          "aten::zero_", "aten::eye.out", "aten::eye.m_out", "aten::linspace.out", "aten::logspace.out",
          "aten::tril_indices", "aten::triu_indices"})
      (*rows)[name].native = true;
    // What scripts ask of a loss before they read it.
    for (const char* name :
         {"aten::abs",
          "aten::neg",
          "aten::isnan",
          "aten::isfinite",
          "aten::isinf",
          "aten::bitwise_and.Tensor",
          "aten::bitwise_or.Tensor",
          "aten::bitwise_not",
          "aten::any",
          "aten::all",
          "aten::add.Tensor",
          "aten::sub.Tensor",
          "aten::mul.Tensor",
          "aten::div.Tensor",
          "aten::maximum",
          "aten::minimum",
          "aten::eq.Tensor",
          "aten::eq.Scalar",
          "aten::ne.Tensor",
          "aten::ne.Scalar",
          "aten::lt.Tensor",
          "aten::lt.Scalar",
          "aten::le.Tensor",
          "aten::le.Scalar",
          "aten::gt.Tensor",
          "aten::gt.Scalar",
          "aten::ge.Tensor",
          "aten::ge.Scalar"})
      (*rows)[name].exact = true;
    return rows;
  }();
  // torchvision's operators are native on Gaudi; how many boxes nms keeps depends on the boxes.
  static const OpTraits vision{.native = true};
  static const OpTraits nms{.always_wait = true, .native = true};
  if (name.rfind("torchvision::", 0) == 0) return name == "torchvision::nms" ? nms : vision;
  // The library of random operators with a seed.
  static const OpTraits seeded{.seeded = true}, users{.native = true};
  if (name == UserCall::kName) return users;  // its second argument is no seed
  if (name.rfind("openhpu::", 0) == 0) return seeded;
  auto it = table->find(name);
  return it == table->end() ? generic : it->second;
}

bool is_single_operator(const std::string& name) {
  // mode.values names the devices it accepts; conj_physical_ calls a kernel that exists per device; mv is made of
  // addmv_, which has fewer dtypes on a Gaudi. The others are made of operators with results for them to fill.
  return name == "aten::convolution_backward" || name == "aten::mode.values" || name == "aten::conj_physical_" ||
         name == "aten::mv" || name == "aten::abs" || name == "aten::isinf" || name == "aten::isfinite" ||
         name.rfind("aten::_foreach_", 0) == 0;
}

}  // namespace openhpu
