#pragma once

#include <ATen/core/Tensor.h>

namespace openhpu {

// Who computes matrix products. Of float32: PyTorch's CPU kernels call MKL, which uses half of the arithmetic units of
// some AMD processors. oneDNN, which libtorch_cpu contains too, uses nine tenths. Of one row of bfloat16, as of a
// language model's token: PyTorch calls oneDNN, which first copies the weights. PyTorch's dot products do not. The
// choice depends on the processor, the sizes and the layout alone, so that eager mode, nodes and recipes compute the
// same bits.

// Computes out = beta * self + alpha * a @ b of matrices or batches of matrices. `self` is read only if beta is not 0,
// and may be `out`. Returns false, and does nothing, where PyTorch's own kernel is to run.
bool product_by_rule(
    const at::Tensor& out, const at::Tensor& self, const at::Tensor& a, const at::Tensor& b, double beta, double alpha);

// Multiplications from which oneDNN is faster than MKL, by kind of product. INT64_MAX: never.
struct ProductBounds {
  int64_t skinny;  // fewer than 16 rows or columns of the result
  int64_t single;
  int64_t batch;  // of matrices; the multiplications of all
};
ProductBounds product_bounds() noexcept;
// Of this processor, as measured (`openhpu calibrate`). For the time before the first product.
void set_product_bounds(const ProductBounds& bounds) noexcept;
// Whether oneDNN can compute products of float32 on this processor.
bool has_onednn_products() noexcept;

// OPENHPU_PRODUCTS: oneDNN for no product, for every product that it can compute, or as described above.
enum class ProductRule { kNever, kAlways, kUsual };
void set_product_rule(ProductRule rule) noexcept;

}  // namespace openhpu
