#pragma once

#include <perf_lib_layer_params.h>

#include "run/VendorKernels.h"

// What VendorKernels and VendorFamilies have in common.
namespace openhpu::vendor {

using at::ScalarType;
using at::Tensor;

inline void require(bool fits, const std::string& why) {
  if (!fits) throw std::invalid_argument(why);
}

struct Family;

// A guid that was looked up. It lives as long as the process.
struct Guid {
  const Family* family;
  std::optional<ScalarType> dtype;        // none: any
  ScalarType to = ScalarType::Undefined;  // of a cast
};

// One call of a kernel.
struct Call {
  const Guid& guid;
  const KernelCall& call;
  std::vector<Tensor> in, out;

  // What the operator filled; zeros without params, and for members behind them.
  template <class Params>
  Params params() const {
    Params params{};
    if (call.params) std::memcpy(static_cast<void*>(&params), call.params, std::min(sizeof(Params), call.params_size));
    return params;
  }
  // Whether the params are as large as this struct.
  template <class Params>
  bool has() const {
    return call.params && call.params_size >= sizeof(Params);
  }
  // PyTorch's number of a dimension, which the vendor counts from the fastest one on.
  int64_t dim(int64_t axis) const { return dim_of(axis, in[0].dim()); }
  int64_t dim_of(int64_t axis, int64_t dims) const {
    const auto most = std::max<int64_t>(dims, 1);
    require(
        axis >= 0 && axis < most, "its params name dimension " + std::to_string(axis) +
                                      ", counted from the fastest one, " + "and the operand has " +
                                      std::to_string(dims) + " dimensions");
    return most - 1 - axis;
  }
  // For formulas of several operators, which are rounded once.
  Tensor wide(size_t i) const { return c10::isReducedFloatingType(in[i].scalar_type()) ? in[i].to(at::kFloat) : in[i]; }
  // A number of the params, in the guid's dtype.
  at::Scalar number(fint_t value) const {
    return c10::isFloatingType(out[0].scalar_type()) ? at::Scalar(value.f) : at::Scalar(value.i);
  }
  void give(const Tensor& result, size_t i = 0) const {
    require(
        result.numel() == out[i].numel(), "it gives " + std::to_string(result.numel()) + " elements as output " +
                                              std::to_string(i) + ", but the operator's callback says " +
                                              std::to_string(out[i].numel()));
    out[i].copy_(result.reshape(out[i].sizes()));
  }
};

// Which operands have another dtype than the guid names. IndexIn: the inputs behind the first one are of int32 or
// int64. IndexOut: the last output is. Result: all inputs are. Mask: the output is of bool, int8 or uint8.
enum class Operands { Same, IndexIn, IndexOut, Mask, Result };
// Sizes of the structs that its params may be.
struct Params {
  const char* name = "";
  std::vector<size_t> sizes;
  bool optional = false;
};
struct Family {
  const char* name;
  const char* dtypes;  // that guids name; empty: they name none, and any fits
  const char* operands;
  size_t inputs, outputs;
  Operands kind;
  Params params;
  void (*run)(Call& call);
  const char* computes;
  const char* source;
};

// The table.
const std::vector<Family>& families();

}  // namespace openhpu::vendor
