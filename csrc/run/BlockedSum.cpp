#include "run/Operator.h"

#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/ops/zeros.h>

namespace openhpu {
namespace {

constexpr int64_t kBlock = int64_t{1} << 24;  // elements, 128 MiB as int64

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
  std::vector<int64_t> dims;  // none: all
  if (stack.size() > 2 && !stack[1].isNone()) dims = stack[1].toIntVector();
  at::maybe_wrap_dims(dims, self.dim());
  const auto sizes = self.sizes();
  const int64_t along = std::max_element(sizes.begin(), sizes.end()) - sizes.begin();
  const int64_t step = std::max<int64_t>(1, kBlock / (self.numel() / sizes[along]));
  const bool summed = dims.empty() || std::ranges::find(dims, along) != dims.end();
  const bool keep = stack.size() > 2 && stack[2].toBool();
  // Of this dimension in the result.
  const int64_t place = along - (keep ? 0 : std::ranges::count_if(dims, [&](int64_t d) { return d < along; }));
  at::Tensor out;
  for (int64_t i = 0; i < sizes[along]; i += step) {
    c10::Stack block = stack;
    block[0] = self.narrow(along, i, std::min(step, sizes[along] - i));
    sum_in_blocks(op, block);
    const at::Tensor& sum = block[0].toTensor();
    if (!out.defined()) {
      auto shape = sum.sizes().vec();
      if (!summed) shape[place] = sizes[along];
      out = at::zeros(shape, sum.options());
    }
    (summed ? out : out.narrow(place, i, sum.size(place))).add_(sum);
  }
  stack.clear();
  stack.emplace_back(std::move(out));
}

}  // namespace openhpu
