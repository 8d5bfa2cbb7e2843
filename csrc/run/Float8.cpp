#include "run/Operator.h"

#include <ATen/ops/bitwise_and.h>
#include <ATen/ops/bitwise_or.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/where.h>

#include "run/Tensors.h"

namespace openhpu {
namespace {

constexpr int64_t kSign = 0x80, kInfinity = 0x78, kNaN = 0x7f;

bool is_e4m3(const at::Tensor& t) {
  return t.defined() && t.scalar_type() == at::kFloat8_e4m3fn && t.layout() == c10::kStrided && t.numel() > 0;
}

at::Tensor magnitude(const at::Tensor& e4m3) { return e4m3.view(at::kByte).bitwise_and(kNaN); }

// Which are no numbers on a Gaudi 2, although they are here.
at::Tensor beyond(const at::Tensor& e4m3) {
  const auto bits = magnitude(e4m3);
  return bits.ge(kInfinity).logical_and(bits.lt(kNaN));
}

// A copy into another dtype: `aten::copy_` alone, since the device makes `to` of it.
bool is_cast(const Operator& op, const c10::Stack& stack) {
  return op.name() == "aten::copy_" && stack[0].toTensor().scalar_type() != stack[1].toTensor().scalar_type();
}

// Others that run in float8_e4m3fn itself move elements and keep their bits.
bool computes(const Operator& op, Widening widening) { return widening || op.name().starts_with("aten::_scaled_mm"); }

// The values of a cast's operand above 240, in the dtype of its result.
void write_infinities(const at::Tensor& result, const at::Tensor& from) {
  const auto bits = magnitude(from);
  const auto inf = std::numeric_limits<double>::infinity();
  const auto negative = from.view(at::kByte).ge(kSign);
  result.copy_(at::where(bits.gt(kInfinity), result.new_full({}, std::nan("")), result));
  result.copy_(
      at::where(bits.eq(kInfinity), at::where(negative, result.new_full({}, -inf), result.new_full({}, inf)), result));
}

// Numbers above 240 in a result; `source`: what was cast to it, or undefined.
void round_to_infinity(const at::Tensor& result, const at::Tensor& source) {
  auto over = beyond(result);
  if (source.defined() && source.is_floating_point() && !is_e4m3(source))
    over = over.logical_or(magnitude(result).eq(kNaN).logical_and(at::isnan(source).logical_not()));
  const auto bits = result.view(at::kByte);
  bits.copy_(at::where(over, bits.bitwise_and(kSign).bitwise_or(kInfinity), bits));
}

}  // namespace

void call_with_e4m3(const Operator& op, c10::Stack& stack, Widening widening) {
  const bool strict = level_of(Difference::E4m3Range) == Level::AsGaudi;
  const bool cast = is_cast(op, stack);
  if (!cast && !computes(op, widening)) return op.call_cpu_in(stack, widening);
  const auto& args = op.args();
  c10::SmallVector<at::Tensor, 4> written;
  const at::Tensor target = cast ? stack[0].toTensor() : at::Tensor();
  const at::Tensor source = cast ? stack[1].toTensor() : at::Tensor();
  int64_t found = 0;
  for (size_t i = 0; i < args.size(); ++i) {
    if (op.writes(i, stack.data())) {
      for_each_tensor(stack[i], [&](const at::Tensor& t) {
        if (is_e4m3(t)) written.push_back(t);
      });
    } else if (stack[i].isTensor() && is_e4m3(stack[i].toTensor())) {
      const at::Tensor operand = stack[i].toTensor();
      const auto special = beyond(operand);
      const auto count = special.sum().item<int64_t>();
      found += count;
      if (!strict || count == 0 || cast) continue;
      auto copy = operand.clone();
      copy.view(at::kByte).masked_fill_(special, kNaN);
      stack[i] = std::move(copy);
    }
  }
  op.call_cpu_in(stack, widening);
  if (strict && cast && found > 0) write_infinities(target, source);
  auto look = [&](const at::Tensor& t) {
    if (!is_e4m3(t)) return;
    if (!strict) found += beyond(t).sum().item<int64_t>();
    if (strict) round_to_infinity(t, source);
  };
  for (const auto& t : written) look(t);
  if (written.empty()) for_each_tensor(stack, look);
  if (strict || found == 0) return;
  note_e4m3(user_name(op), running_site());
}

}  // namespace openhpu
