#pragma once

#include "run/UserKernel.h"

// Kernels of the vendor's library that public documents name, as PyTorch operators on the host.
namespace openhpu {

// A family of guids: "relu" is the family of relu_f32, relu_fwd_f32, relu_bf16 ... docs/vendor-kernels.md has them all.
struct VendorFamily {
  std::string name;
  std::string dtypes;    // "f32 bf16", as guids end; of "cast", each of them to each other one
  std::string operands;  // "x -> y"
  std::string params;    // the struct of perf_lib_layer_params.h; empty: none
  std::string computes;  // in PyTorch's terms
  std::string source;    // the document that names it
};

// The last place where a guid is looked up. It has a `check`.
const KernelLibrary& vendor_kernels();
std::vector<VendorFamily> vendor_families();

}  // namespace openhpu
