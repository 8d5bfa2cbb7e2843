#include "run/Operator.h"
#include "run/Tensors.h"

namespace openhpu {

int64_t wrap_to_int32(const at::Tensor& t) {
  if (!t.defined() || t.scalar_type() != at::kLong || t.layout() != c10::kStrided || t.numel() == 0) return 0;
  const auto wrapped = t.to(at::kInt);
  const auto changed = t.ne(wrapped).sum().item<int64_t>();
  if (changed > 0) t.copy_(wrapped);
  return changed;
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
