#pragma once

#include <ATen/core/Tensor.h>

namespace openhpu {

// A tensor whose copies are copies of its bytes. PyTorch's CPU kernels change every byte of a bool that is not 0 or 1
// to 1. Here bytes that a script views as bool keep their value.
inline at::Tensor as_bytes(const at::Tensor& t) { return t.scalar_type() == at::kBool ? t.view(at::kByte) : t; }

// dst.copy_(src), where equal dtypes are copied byte by byte.
inline void exact_copy(const at::Tensor& dst, const at::Tensor& src) {
  if (dst.scalar_type() == at::kBool && src.scalar_type() == at::kBool)
    as_bytes(dst).copy_(as_bytes(src));
  else
    dst.copy_(src);
}

}  // namespace openhpu
