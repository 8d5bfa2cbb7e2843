#include "run/Operator.h"
#include "run/Tensors.h"

namespace openhpu {
namespace {

int64_t wrap_row(int64_t* data, int64_t size, int64_t stride) {
  int64_t changed = 0;
  for (int64_t i = 0; i < size; ++i) {
    int64_t& value = data[i * stride];
    const auto wrapped = static_cast<int64_t>(static_cast<int32_t>(value));
    if (wrapped != value) {
      value = wrapped;
      ++changed;
    }
  }
  return changed;
}

int64_t wrap_dimensions(int64_t* data, c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  if (sizes.size() == 1) return wrap_row(data, sizes[0], strides[0]);
  int64_t changed = 0;
  for (int64_t i = 0; i < sizes[0]; ++i)
    changed += wrap_dimensions(data + i * strides[0], sizes.slice(1), strides.slice(1));
  return changed;
}

}  // namespace

int64_t wrap_to_int32(const at::Tensor& t) {
  if (!t.defined() || t.scalar_type() != at::kLong || t.layout() != c10::kStrided || t.numel() == 0) return 0;
  auto* data = static_cast<int64_t*>(t.data_ptr());
  if (t.is_non_overlapping_and_dense()) return wrap_row(data, t.numel(), 1);
  return wrap_dimensions(data, t.sizes(), t.strides());
}

void call_with_int32(const Operator& op, c10::Stack& stack) {
  c10::SmallVector<at::Tensor, 4> written;
  const auto& args = op.args();
  for (size_t i = 0; i < args.size(); ++i)
    if (op.writes(i, stack.data())) for_each_tensor(stack[i], [&](const at::Tensor& t) { written.push_back(t); });
  op.call_cpu_as_it_is(stack);
  int64_t changed = 0;
  for (const auto& t : written) changed += wrap_to_int32(t);
  for_each_tensor(stack, [&](const at::Tensor& t) { changed += wrap_to_int32(t); });
  if (changed == 0 || t_unnoted_indices) return;
  note_overflows(user_name(op), running_site(), changed);
}

}  // namespace openhpu
