#include "run/BlockedSum.h"

#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <functional>

#include "run/Operator.h"

namespace openhpu {
namespace {

constexpr int64_t kBlock = int64_t{1} << 24;  // elements, 128 MiB as int64

// The sum over `dims`, sorted and not negative, with each of them kept as a dimension of 1.
at::Tensor blocked(const at::Tensor& self, c10::IntArrayRef dims) {
  if (self.numel() <= kBlock) return at::sum(self, dims, /*keepdim=*/true, at::kLong);
  const auto sizes = self.sizes();
  const int64_t along = std::max_element(sizes.begin(), sizes.end()) - sizes.begin();
  const int64_t step = std::max<int64_t>(1, kBlock / (self.numel() / sizes[along]));
  auto result_sizes = sizes.vec();
  for (int64_t d : dims) result_sizes[d] = 1;
  auto out = at::zeros(result_sizes, self.options().dtype(at::kLong));
  const bool summed = std::find(dims.begin(), dims.end(), along) != dims.end();
  for (int64_t i = 0; i < sizes[along]; i += step) {
    const int64_t length = std::min(step, sizes[along] - i);
    (summed ? out : out.narrow(along, i, length)).add_(blocked(self.narrow(along, i, length), dims));
  }
  return out;
}

bool is_small_integer(at::ScalarType t) {
  return t == at::kChar || t == at::kByte || t == at::kShort || t == at::kInt || t == at::kBool;
}

}  // namespace

void sum_in_blocks(const Operator& op, c10::Stack& stack) {
  const at::Tensor self = stack[0].toTensor();
  const auto& dtype = stack.back();  // the last argument, but of forms with `out`
  const bool small = self.numel() <= kBlock || !is_small_integer(self.scalar_type()) || dtype.isTensor();
  if (small || !(dtype.isNone() || dtype.toScalarType() == at::kLong)) {
    op.call_kernel(stack);
    return;
  }
  std::vector<int64_t> dims;
  const bool some = stack.size() > 2 && !stack[1].isNone() && !stack[1].toIntVector().empty();
  if (some)
    dims = stack[1].toIntVector();
  else
    for (int64_t d = 0; d < self.dim(); ++d) dims.push_back(d);
  at::maybe_wrap_dims(dims, self.dim());
  std::sort(dims.begin(), dims.end(), std::greater<>());
  TORCH_CHECK(
      std::adjacent_find(dims.begin(), dims.end()) == dims.end(), "dim ", dims, " of sum names a dimension twice; name ",
      "each once.");
  const bool keep = stack.size() > 2 && stack[2].toBool();
  at::Tensor out = blocked(self, dims);
  if (!keep) {
    auto sizes = out.sizes().vec();
    for (int64_t d : dims) sizes.erase(sizes.begin() + d);
    out = out.view(sizes);
  }
  stack.clear();
  stack.emplace_back(std::move(out));
}

}  // namespace openhpu
