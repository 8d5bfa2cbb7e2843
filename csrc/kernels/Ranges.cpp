#include "kernels/Ranges.h"

#include <ATen/ops/aminmax.h>
#include <ATen/ops/isinf.h>

#include "observe/Differences.h"

namespace openhpu {
namespace {

template <class Wide, class Narrow>
void check(const at::Tensor& src, Difference difference, const char* wide, const char* narrow) {
  if (!watches(difference)) return;
  c10::InferenceMode no_autograd(true);
  at::Tensor values = src.detach();
  if constexpr (std::is_floating_point_v<Wide>) values = values.masked_fill(at::isinf(values), 0.0).nan_to_num();
  const auto [least, most] = values.aminmax();
  const auto low = least.item<Wide>(), high = most.item<Wide>();
  constexpr Wide lowest = std::numeric_limits<Narrow>::lowest(), highest = std::numeric_limits<Narrow>::max();
  if (low >= lowest && high <= highest) return;
  const auto given = c10::str("[", low, ", ", high, "]");
  TORCH_CHECK(
      level_of(difference) != Level::AsGaudi, "Error when trying to cast ", wide, " to ", narrow,
      ", Input values range ", given, " exceeds ", narrow, " range [", lowest, ", ", highest,
      "] (aten::copy_ to hpu). Keep values in this range",
      std::is_floating_point_v<Wide> ? "." : ", or set PT_ENABLE_INT64_SUPPORT=1.");
  note(difference, given);
}

}  // namespace

void check_copied_range(const at::Tensor& src, c10::ScalarType dst) {
  if (src.scalar_type() != dst || src.numel() == 0) return;
  if (dst == at::kLong)
    check<int64_t, int32_t>(src, Difference::Int64Range, "Long", "Int");
  else if (dst == at::kDouble)
    check<double, float>(src, Difference::Float64Range, "Double", "Float");
}

}  // namespace openhpu
